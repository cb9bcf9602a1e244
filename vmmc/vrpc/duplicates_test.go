package vrpc

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

func testDuplicates(entries, size int) (*duplicates, *atomic.Uint64) {
	young := new(atomic.Uint64)
	return newDuplicates(&ServerConfig{DuplicateEntries: entries, DuplicateBytes: size, DuplicateAge: time.Minute}, young), young
}

func callKey(xid uint32) duplicateKey {
	return duplicateKey{peer: netip.MustParseAddrPort("10.0.0.1:1000"), xid: xid, prog: 1, vers: 2, proc: 3}
}

func TestDuplicates(t *testing.T) {
	d, young := testDuplicates(10, 1000)
	now := time.Unix(0, 0)
	expect := func(k duplicateKey, want duplicate, reply string) {
		t.Helper()
		if got, is := d.begin(k, now, nil); is != want || string(got) != reply {
			t.Errorf("%v: %q, %v, want %q, %v", k, got, is, reply, want)
		}
	}
	expect(callKey(1), freshCall, "")
	expect(callKey(1), silentCall, "") // it is being carried out
	d.finish(callKey(1), now, []byte("one"))
	expect(callKey(1), repeatedCall, "one")
	others := []duplicateKey{callKey(1), callKey(1), callKey(1), callKey(1), callKey(2)}
	others[0].peer = netip.MustParseAddrPort("10.0.0.1:1001")
	others[1].prog++
	others[2].vers++
	others[3].proc++
	for _, k := range others {
		expect(k, freshCall, "")
		d.finish(k, now, nil)
		expect(k, silentCall, "") // it has no reply
	}
	expect(callKey(9), freshCall, "")
	d.forget(callKey(9))
	expect(callKey(9), freshCall, "")
	now = now.Add(time.Minute)
	expect(callKey(1), freshCall, "") // too old
	if young.Load() != 0 || d.bytes != 0 || len(d.calls) != 2 {
		t.Errorf("%d young ones, %d bytes, %d calls", young.Load(), d.bytes, len(d.calls))
	}
}

// Whatever comes, the bounds hold, and calls that are being carried out stay.
func TestDuplicatesBounded(t *testing.T) {
	d, young := testDuplicates(10, 1000)
	now := time.Unix(0, 0)
	d.begin(callKey(0), now, nil)
	for i := range uint32(1000) {
		d.begin(callKey(i+1), now, nil)
		d.finish(callKey(i+1), now, make([]byte, i%300))
		if d.bytes > 1000 || len(d.calls) > 10 {
			t.Fatalf("%d calls, %d bytes", len(d.calls), d.bytes)
		}
	}
	if _, seen := d.begin(callKey(0), now, nil); seen != silentCall || young.Load() == 0 {
		t.Errorf("the call under way: %v; %d left before their time", seen, young.Load())
	}
	d.begin(callKey(5000), now, nil)
	d.finish(callKey(5000), now, make([]byte, 1001))
	if d.bytes > 1000 {
		t.Errorf("one long reply: %d bytes", d.bytes)
	}
	d.finish(callKey(0), now, []byte("reply"))
}
