package plain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// snapshot returns that of a link.
func snapshot(l transport.Link) plain.Snapshot {
	return l.(interface{ Snapshot() plain.Snapshot }).Snapshot()
}

func setRoutes(l transport.Link, routes ...myrinet.HostRoute) error {
	return l.(interface {
		SetRoutes([]myrinet.HostRoute) error
	}).SetRoutes(routes)
}

// star is hosts at one switch that know each other, host i at port i.
func (s *segment) star(hosts int, cfg plain.Config) (links []optional.Parking) {
	sw := s.f.Switch("s")
	for i := range hosts {
		cfg.Routes = nil
		for k := range hosts {
			cfg.Routes = append(cfg.Routes, myrinet.HostRoute{To: mac(k), Turns: myrinet.Route{int8(k - i)}})
		}
		l, _ := s.host(i, cfg, sw.Port(i))
		links = append(links, l)
	}
	return links
}

// send sends a frame from one link to a station and a port.
func (s *segment) send(from transport.Link, to ethertype.MAC, port uint16, payload string) {
	s.t.Helper()
	info := from.Info()
	info.MAC = to
	f := linktest.NewFrame(from.Info(), info, port, []byte(payload))
	if n, err := from.Send([]transport.Frame{{Head: f}}); n != 1 || err != nil {
		s.t.Fatalf("Send = %d, %v", n, err)
	}
}

// settle lets a tenth of a second pass.
func (s *segment) settle() {
	s.t.Helper()
	if err := s.w.Sleep(100 * time.Millisecond); err != nil {
		s.t.Fatal(err)
	}
}

// got returns the payloads that have come to a link.
func (s *segment) got(l transport.Link) (payloads []string) {
	s.t.Helper()
	views := make([][]byte, 64)
	n, err := l.Recv(views)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, v := range views[:n] {
		payloads = append(payloads, string(v[ethertype.HeaderSize:]))
	}
	return payloads
}

// TestGroups: a frame to a group goes along every route but that to its sender, one to a
// station along its own. One to a station that nobody knows is dropped and counted.
func TestGroups(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	links := s.star(5, plain.Config{})
	port := links[0].Info().Ports.Lo
	s.send(links[2], ethertype.Broadcast, ethertype.PortAll, "all")
	s.send(links[2], mac(4), port, "one")
	s.send(links[2], mac(99), port, "nobody")
	s.settle()
	for i, l := range links {
		want := []string{"all", "all", "", "all", "all one"}[i]
		if got := strings.Join(s.got(l), " "); got != want {
			t.Errorf("host %d got %q, want %q", i, got, want)
		}
	}
	if st := links[2].Stats(); st.TxFrames != 2 || st.TxDrops != 1 {
		t.Errorf("%+v", st)
	}
	if err := setRoutes(links[2], myrinet.HostRoute{To: ethertype.Broadcast, Turns: myrinet.Route{1}}); err != nil {
		t.Fatal(err)
	}
	s.send(links[2], ethertype.Broadcast, ethertype.PortAll, "all")
	s.send(links[2], mac(3), port, "one")
	s.send(links[2], mac(4), port, "the wrong one")
	s.settle()
	for i, l := range links {
		want := []string{"", "", "", "all one", ""}[i]
		if got := strings.Join(s.got(l), " "); got != want {
			t.Errorf("with one entry for all, host %d got %q, want %q", i, got, want)
		}
	}
	if st := links[3].Stats(); st.RxFiltered != 1 {
		t.Errorf("%+v", st)
	}
}

// TestTableRefuses: a table that cannot be is an error, and changes nothing.
func TestTableRefuses(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	links := s.star(2, plain.Config{})
	crowd := make([]myrinet.HostRoute, plain.MaxStations+1)
	for i := range crowd {
		crowd[i].To = ethertype.MAC{2, 9, 0, 0, byte(i >> 8), byte(i)}
	}
	for want, routes := range map[string][]myrinet.HostRoute{
		"at most 256":    crowd,
		"at most 24":     {{To: mac(1), Turns: make(myrinet.Route, plain.MaxHops+1)}},
		"want -31 to 31": {{To: mac(1), Turns: myrinet.Route{32}}},
		"two routes":     {{To: mac(1)}, {To: mac(2)}, {To: mac(1)}},
		"multicast":      {{To: ethertype.MAC{1}}},
	} {
		if err := setRoutes(links[0], routes...); !errors.Is(err, station.ErrRoutes) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := setRoutes(links[0], crowd[:plain.MaxStations]...); err != nil {
		t.Error(err)
	}
	if n := snapshot(links[0]).Stations; n != plain.MaxStations {
		t.Errorf("the table has %d stations", n)
	}
	if err := setRoutes(links[0], myrinet.HostRoute{To: mac(1), Turns: myrinet.Route{1}}); err != nil {
		t.Fatal(err)
	}
	s.send(links[0], mac(1), links[1].Info().Ports.Lo, "here")
	s.settle()
	if got := s.got(links[1]); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

// TestRefuses: what a link cannot be is an error that names what to change.
func TestRefuses(t *testing.T) {
	s := newSegment(t, myrinet.Options{MaxPacket: 9000})
	virtual := myrinet.Virtual{World: s.w, Waiter: func() myrinet.Waiter { return s.w.Waiter() }}
	plug := func(h myrinet.Host) *myrinet.Port { return s.f.Host("h", h) }
	taken := s.f.Host("taken", nil)
	for want, test := range map[string]struct {
		cfg  plain.Config
		plug func(h myrinet.Host) *myrinet.Port
	}{
		"frames of 1514 bytes do not fit":              {plain.Config{MAC: mac(1), Card: myrinet.CardConfig{SRAM: 16 << 10}}, plug},
		"CardConfig.SRAM":                              {plain.Config{MAC: mac(1), MTU: 8000, Card: myrinet.CardConfig{SRAM: 40 << 10}}, plug},
		"one page of 4 bytes or more":                  {plain.Config{MAC: mac(1), Card: myrinet.CardConfig{SRAM: 100}}, plug},
		"lower Config.MTU":                             {plain.Config{MAC: mac(1), MTU: 9000}, plug},
		"Config.MAC":                                   {plain.Config{}, plug},
		"Config.MTU is 5":                              {plain.Config{MAC: mac(1), MTU: 5}, plug},
		"Config.Slots is -1":                           {plain.Config{MAC: mac(1), Slots: -1}, plug},
		"want 1 <= Lo":                                 {plain.Config{MAC: mac(1), Ports: transport.PortRange{Lo: 9, Hi: 8}}, plug},
		"two routes":                                   {plain.Config{MAC: mac(1), Routes: make([]myrinet.HostRoute, 2)}, plug},
		"a port is made for one card":                  {plain.Config{MAC: mac(1)}, func(myrinet.Host) *myrinet.Port { return taken }},
		"doorbell pages of 8 bytes, the link needs 12": {plain.Config{MAC: mac(1), Card: myrinet.CardConfig{PageSize: 8}}, plug},
	} {
		if _, err := plain.NewVirtual(virtual, test.plug, test.cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
