package iface

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
)

var (
	eth0   = Interface{Index: 2, Name: "eth0", MAC: ethertype.MAC{2, 0, 0, 0, 0, 2}, MTU: 1500, State: Up}
	eth1   = Interface{Index: 3, Name: "eth1", MAC: ethertype.MAC{2, 0, 0, 0, 0, 3}, MTU: 9000, State: Down}
	docker = Interface{Index: 4, Name: "docker0", MAC: ethertype.MAC{2, 0, 0, 0, 0, 4}, MTU: 1500, State: NoCarrier}
	eth2   = Interface{Index: 5, Name: "eth2", MAC: ethertype.MAC{2, 0, 0, 0, 0, 5}, MTU: 1500, State: Up}
	vlan   = Interface{Index: 6, Name: "eth0.7", MAC: eth0.MAC, MTU: 1500, State: Up}
	tiny   = Interface{Index: 7, Name: "tiny", MAC: ethertype.MAC{2, 0, 0, 0, 0, 7}, MTU: 60, State: Up}
	port   = Interface{Index: 9, Name: "eth3", MAC: ethertype.MAC{2, 0, 0, 0, 0, 9}, MTU: 1500, State: Up, Bridge: "br0"}
	br0    = Interface{Index: 10, Name: "br0", MAC: ethertype.MAC{2, 0, 0, 0, 0, 9}, MTU: 1500, State: Up}
	huge   = Interface{Index: 8, Name: "huge", MAC: ethertype.MAC{2, 0, 0, 0, 0, 8}, MTU: 70000, State: Up}
)

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		name string
		list []Interface
		want string
		got  Interface // zero: an error that contains all of says
		says []string
	}{
		{"the only one up", []Interface{eth0, eth1, docker}, "", eth0, nil},
		{"by name", []Interface{eth0, eth2}, "eth2", eth2, nil},
		{"by MAC", []Interface{eth0, eth2}, "02:00:00:00:00:05", eth2, nil},
		{"by MAC in another form", []Interface{eth0, eth2}, "0200.0000.0005", eth2, nil},
		{"no carrier, but named", []Interface{eth0, docker}, "docker0", docker, nil},
		{"a bridge and its port", []Interface{port, br0}, "", br0, nil},
		{"a bridge and its port, by MAC", []Interface{port, br0}, "02:00:00:00:00:09", br0, nil},
		{"a port of a bridge", []Interface{port, br0}, "eth3", Interface{}, []string{"eth3 is a port of the bridge br0", "use br0 instead", "MTU 1500, port of br0)"}},
		{"two up", []Interface{eth0, eth1, eth2}, "", Interface{}, []string{"2 interfaces are up", "name the one",
			"eth0 (up, MAC 02:00:00:00:00:02, MTU 1500)", "eth2 (up"}},
		{"none up", []Interface{eth1}, "", Interface{}, []string{"no Ethernet interface is up; switch one on: ip link set eth1 up", "eth1 (down"}},
		{"no carrier", []Interface{docker}, "", Interface{}, []string{"no Ethernet interface has a carrier; docker0 has no carrier: check the cable", "docker0 (no carrier"}},
		{"one down, one without carrier", []Interface{docker, eth1}, "", Interface{}, []string{"check the cable", "or switch another on: ip link set eth1 up", "eth1 (down"}},
		{"none at all", nil, "", Interface{}, []string{"no Ethernet interface"}},
		{"none at all, but named", nil, "eth0", Interface{}, []string{`"eth0"`, "has no Ethernet interface"}},
		{"missing", []Interface{eth0, eth1}, "eth9", Interface{}, []string{`"eth9"`, "eth0 (up", "eth1 (down"}},
		{"missing MAC", []Interface{eth0}, "02:00:00:00:00:99", Interface{}, []string{"02:00:00:00:00:99", "eth0 (up"}},
		{"down", []Interface{eth0, eth1}, "eth1", Interface{}, []string{"eth1 is down", "ip link set eth1 up", "eth0 (up"}},
		{"two with a MAC", []Interface{eth0, vlan, eth2}, "02:00:00:00:00:02", Interface{}, []string{"2 interfaces have the MAC", "eth0.7 (up"}},
		{"MTU too small", []Interface{tiny}, "", Interface{}, []string{"MTU of tiny is 60", "ip link set tiny mtu 1500"}},
		{"MTU too large", []Interface{huge}, "huge", Interface{}, []string{"MTU of huge is 70000", "ip link set huge mtu 65535"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := choose(test.list, test.want)
			if got != test.got || (err == nil) != (test.says == nil) {
				t.Fatalf("got %v, %v; want %v", got, err, test.got)
			}
			if err == nil {
				return
			}
			if !errors.Is(err, transport.ErrInterface) {
				t.Errorf("%v does not wrap ErrInterface", err)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

// TestJustUp: an interface counts as up at once when it has been switched on, while the
// kernel has not yet set IFF_RUNNING.
func TestJustUp(t *testing.T) {
	p := vethtest.New(t, 1500)
	for range 5 {
		if err := errors.Join(p.SetUp(0, false), p.SetUp(0, true)); err != nil {
			t.Fatal(err)
		}
		err := p.In(0, func() error {
			list, err := List()
			if err != nil || len(list) != 1 || list[0].State != Up {
				return fmt.Errorf("List() = %v, %w", list, err)
			}
			if got := Obstacle(vethtest.Name); got != "" {
				return errors.New(got)
			}
			_, err = Find("")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestAwaitsCarrier: Find waits for the carrier of an interface that is switched on. Without
// one in time it says what is missing.
func TestAwaitsCarrier(t *testing.T) {
	t.Parallel() // it waits for 4 s
	p := vethtest.New(t, 1500)
	if err := errors.Join(p.SetUp(1, false), p.SetUp(0, true)); err != nil {
		t.Fatal(err)
	}
	find := func(want string) (state State, err error) {
		err = p.In(0, func() error {
			found, err := Find(want)
			state = found.State
			return err
		})
		return state, err
	}
	for state := Up; state == Up; { // the kernel notices a lost carrier in the background
		var err error
		if state, err = find(vethtest.Name); err != nil {
			t.Fatal(err)
		}
	}
	_, err := find("")
	if err == nil || !strings.Contains(err.Error(), "bob0 has no carrier: check the cable") || strings.Contains(err.Error(), "ip link set") {
		t.Errorf("without carrier: %v", err)
	}
	found := make(chan error)
	go func() {
		_, err := find("")
		found <- err
	}()
	if err := p.SetUp(1, true); err != nil {
		t.Fatal(err)
	}
	if err := <-found; err != nil {
		t.Errorf("the carrier came: %v", err)
	}
}

// TestList compares with the standard library on whatever machine this is.
func TestList(t *testing.T) {
	list, err := List()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		ifi, err := net.InterfaceByName(i.Name)
		if err != nil {
			continue // it has just gone
		}
		if ifi.Flags&net.FlagLoopback != 0 || i.Index != ifi.Index || i.MAC.String() != ifi.HardwareAddr.String() || i.MTU != ifi.MTU {
			t.Errorf("%v, want %+v", i, ifi)
		}
	}
}
