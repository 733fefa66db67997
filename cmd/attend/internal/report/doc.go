// Package report draws a replay as one page of HTML that needs nothing beside
// it: no script, no font, no network.
package report
