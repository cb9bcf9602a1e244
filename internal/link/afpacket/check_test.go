package afpacket_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
)

// TestCheck changes an interface under a link of each driver, by way of
// another network namespace than the test's.
func TestCheck(t *testing.T) {
	for name, open := range map[string]func() (transport.Link, error){
		"ring": func() (transport.Link, error) { return ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name}) },
		"packet": func() (transport.Link, error) {
			return packet.Open(t.Context(), &packet.Config{Interface: vethtest.Name})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			var l transport.Link
			err := p.In(0, func() (err error) {
				l, err = open()
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			other := ethertype.MAC{2, 0, 0, 0, 0, 0x77}
			says := func(err, change, target error, words ...string) {
				t.Helper()
				if change != nil || !errors.Is(err, target) {
					t.Errorf("Check() = %v, want %v (%v)", err, target, change)
				}
				for _, w := range words {
					if err == nil || !strings.Contains(err.Error(), w) {
						t.Errorf("%q does not say %q", err, w)
					}
				}
			}
			atOnce := func(change, target error, words ...string) {
				t.Helper()
				says(transport.Check(l), change, target, words...)
			}
			want := func(change, target error, words ...string) {
				t.Helper()
				err := transport.Check(l)
				// The kernel notices a lost carrier in the background.
				for end := time.Now().Add(10 * time.Second); !errors.Is(err, target) && time.Now().Before(end); {
					runtime.Gosched()
					err = transport.Check(l)
				}
				says(err, change, target, words...)
			}
			want(nil, nil)
			want(p.SetMTU(0, 9000), nil)
			want(p.SetMTU(0, 1000), transport.ErrChanged, "MTU of bob0 was 1500 and is 1000", "ip link set dev bob0 mtu 1500")
			var change *transport.ChangeError
			if !errors.As(transport.Check(l), &change) || change.MTU != 1000 {
				t.Errorf("%+v", change)
			}
			want(p.SetMTU(0, 1500), nil)
			want(p.SetUp(1, false), transport.ErrLinkDown, "no carrier")
			want(p.SetUp(0, false), transport.ErrLinkDown, "ip link set bob0 up")
			atOnce(p.SetMAC(0, other), transport.ErrChanged, "MAC of bob0 was "+vethtest.MACs[0].String(), "is "+other.String(),
				"ip link set dev bob0 address "+vethtest.MACs[0].String())
			atOnce(p.SetMAC(0, vethtest.MACs[0]), transport.ErrLinkDown)
			want(p.Delete(), transport.ErrGone, "bob0 was deleted")
			l.Close()
			want(nil, transport.ErrClosed)
		})
	}
}
