// Package access says who may do what at a server: tokens, the principals they
// stand for, and the scopes and rights of each. It has no dependency but core.
package access
