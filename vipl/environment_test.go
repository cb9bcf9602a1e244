package vipl_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestOpenByEnvironment: the environment alone makes a program that says nothing
// use the udp driver, at the address that it names, and what the program says
// counts for more.
func TestOpenByEnvironment(t *testing.T) {
	t.Setenv(vipl.EnvInterface, "127.0.0.33")
	t.Setenv(vipl.EnvDriver, "udp")
	t.Setenv(vipl.EnvPeers, "127.0.0.33, 127.0.0.34")
	for _, tt := range []struct {
		cfg *vipl.Config
		mac ethertype.MAC
	}{
		{nil, ethertype.MAC{2, 'u', 127, 0, 0, 33}},
		{&vipl.Config{Interface: "127.0.0.35"}, ethertype.MAC{2, 'u', 127, 0, 0, 35}},
	} {
		nic, err := vipl.Open(t.Context(), tt.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if q := nic.Query(); !strings.Contains(q.Driver, "udp") || q.Addr.MAC != tt.mac {
			t.Errorf("%+v opened %v by driver %s, want %v by udp", tt.cfg, q.Addr, q.Driver, tt.mac)
		}
		nic.Close()
	}
}

// TestFromEnvironment: which fields are filled, and that what cannot be
// understood names its variable.
func TestFromEnvironment(t *testing.T) {
	seven, eight := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::8")
	link := sim.New(sim.Options{Seed: 1}).Station("a")
	for _, tt := range []struct {
		name                  string
		iface, driver, peers  string
		cfg                   vipl.Config
		wantIface, wantDriver string
		wantPeers             []netip.Addr
		blames                string
	}{
		{name: "nothing"},
		{name: "all", iface: "eth0", driver: "udp", peers: "10.0.0.7,, fd00::8 ", wantIface: "eth0", wantDriver: "udp", wantPeers: []netip.Addr{seven, eight}},
		{name: "the program says more", iface: "eth0", driver: "udp", peers: "10.0.0.7", cfg: vipl.Config{Interface: "eth1", Driver: "packet"}, wantIface: "eth1", wantDriver: "packet"},
		{name: "peers of its own", driver: "ring", peers: "nonsense", cfg: vipl.Config{Driver: "udp", Peers: []netip.Addr{eight}}, wantDriver: "udp", wantPeers: []netip.Addr{eight}},
		{name: "peers that nobody uses", peers: "nonsense"},
		{name: "a link", iface: "eth0", driver: "nonsense", cfg: vipl.Config{Link: link}},
		{name: "no driver", driver: "UDP", blames: vipl.EnvDriver},
		{name: "no address", driver: "udp", peers: "10.0.0.7,host", blames: vipl.EnvPeers},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(vipl.EnvInterface, tt.iface)
			t.Setenv(vipl.EnvDriver, tt.driver)
			t.Setenv(vipl.EnvPeers, tt.peers)
			got, err := tt.cfg.FromEnvironment()
			if tt.blames != "" {
				if !errors.Is(err, vipl.ErrArgument) || !strings.Contains(err.Error(), tt.blames) {
					t.Errorf("the error is %v, want one about %s", err, tt.blames)
				}
				if _, err := vipl.Open(t.Context(), &tt.cfg); err == nil || !strings.Contains(err.Error(), tt.blames) {
					t.Errorf("Open's error is %v, want one about %s", err, tt.blames)
				}
				return
			}
			if err != nil || got.Interface != tt.wantIface || got.Driver != tt.wantDriver || !slices.Equal(got.Peers, tt.wantPeers) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestPeersWithoutUDP: peers are not passed over in silence.
func TestPeersWithoutUDP(t *testing.T) {
	_, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm", Peers: []netip.Addr{netip.MustParseAddr("10.0.0.7")}})
	if !errors.Is(err, vipl.ErrArgument) || !strings.Contains(err.Error(), "10.0.0.7") {
		t.Error(err)
	}
}

func TestTimeoutWanted(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "90s": 90 * time.Second, "2m": 2 * time.Minute, "30": -1, "-1s": -1, "0s": -1, "soon": -1} {
		t.Setenv(vipl.EnvTimeout, text)
		got, err := seam.Timeout()
		switch {
		case want >= 0 && (got != want || err != nil):
			t.Errorf("%q is %v, %v", text, got, err)
		case want < 0 && (!errors.Is(err, vipl.ErrArgument) || !strings.Contains(err.Error(), vipl.EnvTimeout)):
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}
