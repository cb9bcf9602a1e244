package conformance_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/internal/conformance"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/viplinks"
)

// TestConformance runs every rule of VIPL 1.0 on every link, with both kinds of
// wait and on each level that the rule speaks of:
// TestConformance/<link>/<wait>/<level>/<call>/<rule>. The links run at the same
// time, because most of it the kernel takes to close packet sockets.
func TestConformance(t *testing.T) {
	links := append(slices.Clone(viplinks.All), viplinks.Card, viplinks.Self, viplinks.Sealed)
	if !need.Full() {
		links = links[:2]
	}
	var all sync.WaitGroup
	for _, l := range links {
		all.Go(func() { conformance.Run(t, l, conformance.Spin, conformance.Block) })
	}
	all.Wait()
}

// vipCalls are the calls of VIPL 1.0.
const vipCalls = `OpenNic CloseNic QueryNic CreateVi DestroyVi QueryVi SetViAttributes
	ConnectWait ConnectAccept ConnectReject ConnectRequest Disconnect
	ConnectPeerRequest ConnectPeerDone ConnectPeerWait
	CreatePtag DestroyPtag RegisterMem DeregisterMem QueryMem SetMemAttributes
	PostSend PostRecv SendDone RecvDone SendWait RecvWait SendNotify RecvNotify
	CreateCQ DestroyCQ ResizeCQ CQDone CQWait CQNotify
	ErrorCallback QuerySystemManagementInfo NSInit NSShutdown NSGetHostByName NSGetHostByAddr`

// TestConformanceCount wants twice the rules of the historical bar, each with
// a name of its own, and each of the 41 calls among them.
func TestConformanceCount(t *testing.T) {
	distinct, byLevel, calls := conformance.Count()
	t.Logf("%d rules, %d with their levels, on %d calls", distinct, byLevel, len(calls))
	if distinct < 250 {
		t.Errorf("%d rules, want at least 250", distinct)
	}
	guide, err := os.ReadFile("../../docs/guide.md")
	if said := fmt.Sprintf("%d named rules", distinct); err != nil || !bytes.Contains(guide, []byte(said)) {
		t.Errorf("docs/guide.md does not say %q (%v)", said, err)
	}
	for _, call := range strings.Fields(vipCalls) {
		if t.Logf("%-30s %d", call, calls["Vip"+call]); calls["Vip"+call] == 0 {
			t.Errorf("no rule for Vip%s", call)
		}
	}
	for _, name := range conformance.Duplicates() {
		t.Errorf("two rules are called %s", name)
	}
}
