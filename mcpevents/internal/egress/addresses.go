package egress

import "net/netip"

// A block is a range of addresses that is not for the public Internet.
type block struct {
	prefix netip.Prefix
	what   string
}

// blocks are the ranges that no connection goes to. They are those that IANA's
// registries do not call globally reachable, and those that carry an address of
// another kind inside, which would lead around the check:
//
//   - IPv4: https://www.iana.org/assignments/iana-ipv4-special-registry and
//     https://www.iana.org/assignments/multicast-addresses
//   - IPv6: https://www.iana.org/assignments/iana-ipv6-special-registry and
//     https://www.iana.org/assignments/ipv6-multicast-addresses
//
// Of the two ranges of protocol assignments (192.0.0.0/24, 2001::/23) the whole
// is refused, the few addresses in them that are reachable included: none is a
// web server. IPv6 outside 2000::/3 is not global unicast at all
// (https://www.iana.org/assignments/ipv6-unicast-address-assignments); its lines
// here give the reason a name.
var blocks = []block{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private use"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared address space"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private use"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay anycast"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private use"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved, and limited broadcast"},

	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::/96"), "IPv4-compatible"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "IPv4-mapped"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "IPv4-translated"},
	{netip.MustParsePrefix("64:ff9b::/96"), "IPv4 behind NAT64"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "IPv4 behind local NAT64"},
	{netip.MustParsePrefix("100::/64"), "discard-only"},
	{netip.MustParsePrefix("100:0:0:1::/64"), "dummy prefix"},
	{netip.MustParsePrefix("2001::/32"), "Teredo"},
	{netip.MustParsePrefix("2001::/23"), "protocol assignments"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("2002::/16"), "6to4"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing"},
	{netip.MustParsePrefix("fc00::/7"), "unique local"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// globalUnicast is the range of IPv6 that is handed out for the Internet.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// Public reports whether a is an address of the public Internet, and if not,
// which kind it is of. An IPv4 address in its IPv6 form is looked at as IPv4.
func Public(a netip.Addr) (bool, string) {
	a = a.Unmap()
	if !a.IsValid() {
		return false, "no address"
	}
	if a.Zone() != "" {
		return false, "an address with a zone"
	}
	for _, b := range blocks {
		if b.prefix.Contains(a) {
			return false, b.what
		}
	}
	if a.Is6() && !globalUnicast.Contains(a) {
		return false, "not global unicast"
	}
	return true, ""
}
