package rpc

import (
	"fmt"
	"net/netip"
	"strings"

	"google.golang.org/grpc/resolver"
)

// addressSchemes are those of targets that list their addresses, as gRPC's naming document defines them and its other
// languages know them: ipv4:10.0.0.1:9091,10.0.0.2:9091 where no DNS name stands for all replicas.
const (
	schemeIPv4 = "ipv4"
	schemeIPv6 = "ipv6"
)

// addressList resolves targets that are lists of addresses.
type addressList struct{ scheme string }

// Scheme implements resolver.Builder.
func (l addressList) Scheme() string { return l.scheme }

// Build implements resolver.Builder: all addresses are known at once, and never change.
func (l addressList) Build(target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	addresses, err := l.parse(target)
	if err != nil {
		return nil, err
	}
	return fixedAddresses{}, conn.UpdateState(resolver.State{Addresses: addresses})
}

func (l addressList) parse(target resolver.Target) ([]resolver.Address, error) {
	list := target.Endpoint()
	if list == "" {
		list = target.URL.Opaque // ipv4:a,b without slashes
	}
	var addresses []resolver.Address
	for text := range strings.SplitSeq(list, ",") {
		address, err := netip.ParseAddrPort(text)
		if err != nil || address.Addr().Is4() != (l.scheme == schemeIPv4) {
			return nil, fmt.Errorf("%q in target %s is no %s address with a port: write %s, with a comma between two",
				text, target.String(), l.scheme, l.example())
		}
		addresses = append(addresses, resolver.Address{Addr: text})
	}
	return addresses, nil
}

func (l addressList) example() string {
	if l.scheme == schemeIPv6 {
		return "ipv6:///[::1]:9091"
	}
	return "ipv4:///127.0.0.1:9091"
}

// fixedAddresses is the resolver of a list: there is never anything new.
type fixedAddresses struct{}

// ResolveNow implements resolver.Resolver.
func (fixedAddresses) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements resolver.Resolver.
func (fixedAddresses) Close() {}
