package ethertype

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAddrRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want Addr
		copy(want.MAC[:], rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "mac"))
		want.Port = rapid.Uint16().Draw(t, "port")
		if got, err := ParseAddr(want.String()); err != nil || got != want {
			t.Errorf("ParseAddr(%q) = %v, %v", want.String(), got, err)
		}
		if got, err := ParseMAC(want.MAC.String()); err != nil || got != want.MAC {
			t.Errorf("ParseMAC(%q) = %v, %v", want.MAC.String(), got, err)
		}
		if got := want.MAC.HardwareAddr().String(); got != want.MAC.String() {
			t.Errorf("the standard library prints %s, we %s", got, want.MAC)
		}
	})
}

func TestParseAddr(t *testing.T) {
	want := Addr{MAC{0x02, 0, 0, 0, 0, 0xab}, 1024}
	for _, s := range []string{"02:00:00:00:00:ab/1024", "02-00-00-00-00-AB/1024", "0200.0000.00ab/1024", "02-00-00-00-00-ab:1024", "02:00:00:00:00:ab:1024"} {
		if got, err := ParseAddr(s); err != nil || got != want {
			t.Errorf("ParseAddr(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "/", "/1", "02:00:00:00:00:01", "02:00:00:00:00:01/", "02:00:00:00:00:01/65536", "02:00:00:00:00:01/-1",
		"02:00:00:00:00:01/0x10", "02:00:00:00:00/1", "02:00:00:00:00:00:00:01/1", "02:00:00:00:00:01/1/2", "02-00-00-00-00-01", "02-00-00-00-00-01:", "02-00-00-00-00-01:65536", "02:00:00:00:00:01:00:02", "gg:00:00:00:00:01/1",
	} {
		got, err := ParseAddr(s)
		if !errors.Is(err, errAddress) || !got.IsZero() {
			t.Errorf("ParseAddr(%q) = %v, %v", s, got, err)
		} else if !strings.Contains(err.Error(), "\"") {
			t.Errorf("%q does not quote what was given", err)
		}
	}
}

func TestMAC(t *testing.T) {
	for s, group := range map[string]bool{
		"ff:ff:ff:ff:ff:ff": true, "01:00:5e:00:00:01": true, "02:00:00:00:00:01": false, "00:00:00:00:00:00": false,
	} {
		m, err := ParseMAC(s)
		if err != nil || m.IsGroup() != group {
			t.Errorf("%s: group %v, %v", s, m.IsGroup(), err)
		}
	}
	if !(Addr{}).IsZero() || (Addr{Port: 1}).IsZero() || (Addr{}).Network() != "bobnet" {
		t.Error("zero address or network")
	}
}
