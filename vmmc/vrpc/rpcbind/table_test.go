package rpcbind

import (
	"strconv"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// TestOneUserFillsTheTable: whoever registers all he can, short entries or long ones, leaves
// room for others, and the dump fits into a reply.
func TestOneUserFillsTheTable(t *testing.T) {
	for name, long := range map[string]string{"short": "", "long": strings.Repeat("x", maxText-20)} {
		t.Run(name, func(t *testing.T) {
			var tab table
			entry := func(owner string, n int) Entry {
				return Entry{Program: uint32(n), Version: 1, Netid: "some" + long, Addr: "/" + long + strconv.Itoa(n), Owner: owner}
			}
			fill := func(owner string, from int) (n int) {
				for n < 2*maxEntries && tab.set(entry(owner, from+n)) {
					n++
				}
				return n
			}
			first := fill("1000", 0)
			if second := fill("1001", 10*maxEntries); first == 0 || second != first {
				t.Errorf("a user has registered %d programs, and another one after him %d", first, second)
			}
			if n := fill(superuser, 20*maxEntries); n < 3*first {
				t.Errorf("root has registered %d programs, after others who have %d each", n, first)
			}
			l := entryList{items: tab.dump()}
			b, err := xdr.Append(nil, &l)
			if err != nil || len(b) > 3<<20 {
				t.Errorf("the dump has %d bytes, %v", len(b), err)
			}
			if !tab.unset(0, 1, "", "1000") || !tab.set(entry("1000", 0)) {
				t.Error("what a user gives back cannot be used again")
			}
		})
	}
}

// TestPortsBeyondAll: an answer of version 2 whose port is none is refused.
func TestPortsBeyondAll(t *testing.T) {
	msg, err := xdr.Append(nil, &rmtresult{v2: true, port: 1<<16 + 80})
	if err != nil {
		t.Fatal(err)
	}
	r := rmtresult{v2: true}
	if err := xdr.Unmarshal(msg, &r); err != nil {
		t.Fatal(err)
	}
	if err := r.decode(xdr.Void{}); err == nil || !strings.Contains(err.Error(), "port 65616") {
		t.Errorf("decode says %v", err)
	}
}
