package vipl_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// TestSuccessorOnOneHost: a station ends and another one opens with its ports.
// Who knew the old one connects with the new one at once: the news that the old
// one has gone, which comes late, does not concern that connection.
func TestSuccessorOnOneHost(t *testing.T) {
	open := func(ports transport.PortRange) *vipl.NIC {
		n, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(71), Driver: "udp", Ports: ports})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	a := open(transport.PortRange{Lo: 20480, Hi: 21503})
	defer a.Close()
	for i := range 60 {
		x := open(transport.PortRange{Lo: 30720, Hi: 31743})
		l, err := x.Listen(30721)
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error, 1)
		go func() {
			v, err := x.CreateVI(nil, nil, nil)
			if err == nil {
				var r *vipl.Request
				if r, err = l.Wait(ctx); err == nil {
					err = r.Accept(ctx, v)
				}
			}
			accepted <- err
		}()
		v, err := a.CreateVI(nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Connect(ctx, l.Addr(), nil); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if err := <-accepted; err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		x.Close()
		v.Close()
	}
}

// TestPortsTakenOnOneHost: a NIC whose ports somebody else has within the host
// waits a moment for him to leave, and then says so.
func TestPortsTakenOnOneHost(t *testing.T) {
	p := vethtest.New(t, 1500)
	ports := transport.PortRange{Lo: 20480, Hi: 21503}
	squat := func() (other *shm.Link) {
		if err := p.In(0, func() error {
			ifi, err := net.InterfaceByName(vethtest.Name)
			if err == nil {
				other, err = shm.Open(&shm.Config{Address: ethertype.MAC(ifi.HardwareAddr), Segment: strconv.Itoa(ifi.Index), EtherType: ethertype.Default, Ports: ports})
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return other
	}
	open := func() (n *vipl.NIC, err error) {
		err = p.In(0, func() error {
			n, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Ports: ports})
			return err
		})
		return n, err
	}
	other := squat()
	_, err := open()
	if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "20480..21503") || !strings.Contains(err.Error(), "Config.WireOnly") {
		t.Errorf("Open with ports that another station has: %v", err)
	}
	other.Close()
	other = squat() // the failure has left nothing behind
	time.AfterFunc(100*time.Millisecond, func() { other.Close() })
	n, err := open()
	if err != nil {
		t.Fatalf("Open while a station leaves: %v", err)
	}
	n.Close()
}
