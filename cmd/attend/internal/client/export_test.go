package client

import "net/http"

// Through has c ask without a network.
func (c *Client) Through(t http.RoundTripper) { c.http.Transport = t }
