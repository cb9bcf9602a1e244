package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// goings are the ways in which the interface of side 0 goes, and whether it is there again
// afterwards, under its name.
var goings = map[string]func(t *testing.T, p *vethtest.Pair){
	"deleted": func(t *testing.T, p *vethtest.Pair) {
		if err := p.Delete(); err != nil {
			t.Error(err)
		}
	},
	"made anew": func(t *testing.T, p *vethtest.Pair) {
		if err := errors.Join(p.Delete(), p.Join(1500)); err != nil {
			t.Error(err)
		}
	},
	"moved away":      func(t *testing.T, p *vethtest.Pair) { p.MoveAway(t, 0, false) },
	"moved, and back": func(t *testing.T, p *vethtest.Pair) { p.MoveAway(t, 0, true) },
}

// TestInterfaceGone: when the interface of a NIC is gone all that wait end with an error that
// says so, and so does everything that is begun afterwards, also if there is another interface
// of the same name.
func TestInterfaceGone(t *testing.T) {
	for name, gone := range goings {
		t.Run(name, func(t *testing.T) {
			onChange(t, 1500, func(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, driver string) {
				if name == "moved, and back" && strings.HasPrefix(driver, "udp") {
					return // a station of udp is its address, which an interface that is back may get again
				}
				interfaceGone(t, nics, func() { gone(t, p) })
			})
		})
	}
}

func interfaceGone(t *testing.T, nics [2]*vipl.NIC, gone func()) {
	n := nics[0]
	a, _ := join(t, nics, patient)
	calls := map[string]func() error{
		"Wait of a listener": func() error {
			l, err := n.Listen(n.Addr().Port + 5)
			if err == nil {
				_, err = l.Wait(bg)
				l.Close()
			}
			return err
		},
		"Lookup": func() error { _, err := n.Lookup(bg, "nobody"); return err },
		"Connect": func() error {
			silent, err := nics[1].Listen(0)
			if err != nil {
				return err
			}
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			return v.Connect(bg, silent.Addr(), nil)
		},
		"Wait of a queue": func() error {
			q, err := n.CreateCQ(8)
			if err == nil {
				_, _, err = q.Wait(bg)
			}
			return err
		},
		"a connection": func() error {
			<-n.Ended()
			return n.Cause()
		},
		"Echo": func() error {
			_, err := n.Echo(bg, ethertype.Addr{MAC: ethertype.MAC{2, 9, 9, 9, 9, 9}, Port: 1024}, 8)
			return err
		},
	}
	want := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, vipl.ErrLink) || !errors.Is(err, transport.ErrGone) || errors.Is(err, transport.ErrLinkDown) {
			t.Errorf("%s: %v; want ErrLink and ErrGone", what, err)
		}
	}
	var waits sync.WaitGroup
	for what, call := range calls {
		waits.Go(func() { want(what, call()) })
	}
	gone()
	within(t, "the end of all calls", func() error { waits.Wait(); return nil })
	if a.State() != vipl.StateError {
		t.Errorf("the connection is %v", a.State())
	}
	want("the connection", a.Err())
	delete(calls, "Connect") // its first half is the peer's
	for what, call := range calls {
		want(what+" afterwards", call())
	}
}

// TestOwnLinkDown: what gets no answer while the NIC's own interface is off says so, with the
// command that switches it on, and does not blame the peer.
func TestOwnLinkDown(t *testing.T) {
	onChange(t, 1500, func(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, driver string) {
		n, other := nics[0], nics[1].Addr()
		a, _ := join(t, nics, &vipl.Attributes{PeerTimeout: 200 * time.Millisecond})
		if err := p.SetUp(0, false); err != nil {
			t.Fatal(err)
		}
		short := func() context.Context {
			ctx, cancel := n.WithTimeout(bg, 50*time.Millisecond)
			t.Cleanup(cancel)
			return ctx
		}
		for what, call := range map[string]func() error{
			"Lookup":     func() error { _, err := n.Lookup(short(), "nobody"); return err },
			"LookupAt":   func() error { _, err := n.LookupAt(short(), other, "nobody"); return err },
			"HostByName": func() error { _, err := n.HostByName(short(), "nobody", 0); return err },
			"HostByAddr": func() error { _, err := n.HostByAddr(short(), other); return err },
			"Discover":   func() error { _, err := n.Discover(short()); return err },
			"Echo":       func() error { _, err := n.Echo(short(), other, 8); return err },
			"Connect": func() error {
				v, err := n.CreateVI(nil, nil, nil)
				if err != nil {
					return err
				}
				return v.Connect(short(), other, nil)
			},
			"ConnectPeer": func() error {
				v, err := n.CreateVI(nil, nil, nil)
				if err != nil {
					return err
				}
				return v.ConnectPeer(short(), other, nil)
			},
			"the connection": func() error {
				for a.State() == vipl.StateConnected { // the peer's time-out ends it
					runtime.Gosched()
				}
				return a.Err()
			},
		} {
			err := call()
			if !errors.Is(err, transport.ErrLinkDown) || !strings.Contains(fmt.Sprint(err), "ip link set bob0 up") {
				t.Errorf("%s: %v; want ErrLinkDown and the remedy", what, err)
			} else if strings.Contains(err.Error(), "running") {
				t.Errorf("%s: it blames the peer: %v", what, err)
			}
		}
	})
}
