package endpoint_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// manyPorts is what two nodes of 64 endpoints need that all talk to each other, beside
// those of the NIC and the node.
const manyPorts = 2*64*64 + 2

// TestPorts: the first nodes on an interface have ports for many endpoints, later ones
// as many as any NIC, and who asks for some gets these.
func TestPorts(t *testing.T) {
	p := vethtest.New(t, 1500)
	open := func(cfg *endpoint.Config) (ports transport.PortRange, err error) {
		cfg.Interface, cfg.Logger = vethtest.Name, quiet
		err = p.In(0, func() error {
			n, err := endpoint.Open(t.Context(), cfg)
			if err == nil {
				t.Cleanup(func() { n.Close() })
				ports = n.NIC().Query().Ports
			}
			return err
		})
		return ports, err
	}
	if err := p.In(0, func() error { // a program in the midst of the second range
		nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Ports: transport.PortRange{Lo: 12_000, Hi: 12_001}})
		if err == nil {
			t.Cleanup(func() { nic.Close() })
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i, many := range []bool{true, true, false, false} {
		ports, err := open(&endpoint.Config{})
		if err != nil || many != (ports.Len() >= manyPorts) || ports.Len() < 1024 {
			t.Errorf("node %d has ports %v: %v", i, ports, err)
		}
	}
	want := transport.PortRange{Lo: 50_000, Hi: 50_099}
	if ports, err := open(&endpoint.Config{Ports: want}); err != nil || ports != want {
		t.Errorf("asked for %v: %v, %v", want, ports, err)
	}
	if _, err := open(&endpoint.Config{Ports: want}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("asked for ports that are taken: %v", err)
	}
	if _, err := open(&endpoint.Config{Ports: transport.PortRange{Lo: 9, Hi: 8}}); err == nil {
		t.Error("asked for no ports: no error")
	}
}

// TestPortsOfOthers: a NIC that is given has its own ports.
func TestPortsOfOthers(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		_, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: n.NIC(), Ports: transport.PortRange{Lo: 2000, Hi: 3000}})
		if !errors.Is(err, endpoint.ErrArgument) {
			return fmt.Errorf("ports for a NIC that is open: %w", err)
		}
		return nil
	})
}

// TestManyEndpoints: 64 endpoints of one node and 64 of another all ask each other,
// with the ports and the memory that there are by default.
func TestManyEndpoints(t *testing.T) {
	const each = 64
	if need, have := each*each*endpoint.ShapeMemory(endpoint.DefaultCredits, endpoint.DefaultMaxMedium), memoryByDefault(t); need > have {
		t.Errorf("the connections take %d bytes of buffers, of %d", need, have)
	}
	w := newWorld(sim.Options{})
	handled, done := 0, false
	names := map[string][]endpoint.Name{}
	for i, side := range []string{"left", "right"} {
		other := []string{"right", "left"}[i]
		station := w.StationWith(sim.StationOptions{Name: side, Ports: transport.PortRange{Lo: 1024, Hi: 1024 + 9*1024 - 1}})
		w.nodeOn(station, side, endpoint.Config{MaxMedium: 64}, func(n *endpoint.Node) error {
			p, err := newParty(n)
			if err != nil {
				return err
			}
			eps := make([]*endpoint.Endpoint, each)
			for k := range eps {
				if eps[k], err = p.b.NewEndpoint(); err != nil {
					return err
				}
				eps[k].SetTag(endpoint.TagAll)
				eps[k].SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { handled++; done = handled == 2*each*each })
				eps[k].SetReturnHandler(func(r *endpoint.Returned) {
					done = true
					t.Errorf("came back: %+v", r)
				})
				names[side] = append(names[side], eps[k].Name())
			}
			for len(names[other]) < each {
				w.Sleep(time.Millisecond)
			}
			for _, ep := range eps {
				for k, to := range names[other] {
					ep.Map(k, to, 5)
					if err := ep.Request(bg, k, hMute); err != nil {
						return err
					}
				}
			}
			return p.serve(n, &done)
		})
	}
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

func memoryByDefault(t *testing.T) int {
	have, err := (&endpoint.Config{}).ConnectionMemory()
	if err != nil {
		t.Fatal(err)
	}
	return have
}
