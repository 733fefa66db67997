// Package egress makes HTTPS requests to addresses that a stranger named, and
// only to addresses of the public Internet. Addresses.go has the table of what is
// not, transport.go the check at each request and each connection.
package egress
