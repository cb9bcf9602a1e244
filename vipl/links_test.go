package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/conformance"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/vishvananda/netlink"
)

// opener opens links at the two ends of a segment, as often as it is called.
type opener func() (conformance.Ends, error)

// eachLink runs a test on every link that is not simulated, by name, with what
// opens it; on the first one only in the short form.
func eachLink(t *testing.T, run func(t *testing.T, name string, open opener)) {
	links := viplinks.All[1:]
	if !need.Full() {
		links = links[:1]
	}
	for _, l := range links {
		t.Run(l.Name, func(t *testing.T) { run(t, l.Name, l.Setup(t)) })
	}
}

// nics opens NICs at the two ends. wrap, if not nil, is put around each link.
func (open opener) nics(t *testing.T, cfg vipl.Config, wrap func(side int, l transport.Link) transport.Link) (nics [2]*vipl.NIC) {
	t.Helper()
	e, err := open()
	if err != nil {
		t.Fatal(err)
	}
	for side, link := range e.Links {
		if wrap != nil {
			link = conformance.KeepLocal(link, wrap(side, link))
		}
		cfg := cfg
		cfg.Link, cfg.WireOnly = link, true // a link to this host has the way there itself
		if nics[side], err = vipl.Open(t.Context(), &cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[side].Close() })
	}
	return nics
}

// drivers are the links on real interfaces.
var drivers = []string{"ring", "packet", "udp"}

// interfaceOf is what Config.Interface says to a driver on a veth.
func interfaceOf(driver string) string {
	if driver == "shm" {
		return ""
	}
	return vethtest.Name
}

// addIPs gives the ends of a veth addresses for udp.
func addIPs(t *testing.T, p *vethtest.Pair) {
	t.Helper()
	for side, ip := range []string{"10.9.0.1", "10.9.0.2"} {
		changeIP(t, p, side, ip, netlink.AddrAdd)
	}
}
