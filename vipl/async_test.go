package vipl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// alarms are the asynchronous errors of one NIC.
type alarms struct {
	t   testing.TB
	got []vipl.AsyncError
}

func watch(t testing.TB, n *vipl.NIC) *alarms {
	a := &alarms{t: t}
	n.SetErrorHandler(func(e vipl.AsyncError) { a.got = append(a.got, e) })
	return a
}

// want compares the errors told since the last call; NIC is not compared, and
// causes as errors.Is does.
func (a *alarms) want(want ...vipl.AsyncError) {
	a.t.Helper()
	got := a.got
	a.got = nil
	same := func(x, y vipl.AsyncError) bool {
		return x.VI == y.VI && x.CQ == y.CQ && x.Descriptor == y.Descriptor && x.Op == y.Op && x.Resource == y.Resource && x.Code == y.Code &&
			(y.Err == nil || errors.Is(x, y.Err)) && x.NIC != nil && x.Err != nil
	}
	if !slices.EqualFunc(got, want, same) {
		a.t.Fatalf("told\n%v\nwant\n%v", got, want)
	}
}

// lost is the error that always follows when a reliable connection breaks.
func lost(v *vipl.VI, cause error) vipl.AsyncError {
	return vipl.AsyncError{VI: v, Resource: vipl.ResourceVI, Code: vipl.CodeConnLost, Err: cause}
}

func at(v *vipl.VI, code vipl.ErrorCode, op vipl.Status, cause error) vipl.AsyncError {
	return vipl.AsyncError{VI: v, Resource: vipl.ResourceVI, Code: code, Op: op, Err: cause}
}

// loose are attributes of the unreliable level.
func loose() *vipl.Attributes {
	return &vipl.Attributes{Reliability: reliability.Unreliable, EnableRDMAWrite: true}
}

func TestAsyncPostDesc(t *testing.T) {
	d := newDuo(t, nil, nil)
	a := watch(t, d.na)
	bad := &vipl.Descriptor{Segs: []vipl.Segment{{Data: make([]byte, 4), Handle: 77}}}
	post := func(op vipl.Status) vipl.AsyncError {
		return vipl.AsyncError{VI: d.a, Descriptor: bad, Op: op, Resource: vipl.ResourceDescriptor, Code: vipl.CodePostDesc, Err: vipl.ErrArgument}
	}
	if d.a.PostSend(bad) == nil || d.a.PostRecv(bad) == nil {
		t.Fatal("a descriptor with a bad handle was taken")
	}
	a.want(post(vipl.StatusOpSend), post(vipl.StatusOpReceive))
	bad.Op, bad.Segs = 9, nil
	d.a.PostSend(bad)
	a.want(post(vipl.StatusOpSend))
}

func TestAsyncConnLost(t *testing.T) {
	d := newDuo(t, nil, nil)
	a, b := watch(t, d.na), watch(t, d.nb)
	d.a.Disconnect()
	d.run()
	a.want()
	b.want(lost(d.b, vipl.ErrDisconnected))
}

func TestAsyncRecvqEmpty(t *testing.T) {
	d := newDuo(t, nil, nil)
	a, b := watch(t, d.na), watch(t, d.nb)
	d.send(d.a, 8)
	d.run()
	a.want(lost(d.a, vipl.ErrRecvQueue))
	b.want(at(d.b, vipl.CodeRecvqEmpty, vipl.StatusOpReceive, vipl.ErrRecvQueue), lost(d.b, vipl.ErrRecvQueue))

	d = newDuo(t, loose(), loose())
	b = watch(t, d.nb)
	d.send(d.a, 8)
	d.run()
	d.alive()
	b.want(at(d.b, vipl.CodeRecvqEmpty, vipl.StatusOpReceive, vipl.ErrRecvQueue))
}

func TestAsyncOverrun(t *testing.T) {
	d := newDuo(t, &vipl.Attributes{QueueDepth: 1}, nil)
	a := watch(t, d.na)
	d.post(d.a, 8)
	buf, h := d.buffer(d.na, 8, nil)
	r := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}
	if err := d.a.PostRecv(r); !errors.Is(err, vipl.ErrResource) {
		t.Fatal(err)
	}
	a.want(vipl.AsyncError{VI: d.a, Descriptor: r, Op: vipl.StatusOpReceive, Resource: vipl.ResourceVI, Code: vipl.CodeVIOverrun, Err: vipl.ErrResource})

	d, cq := boundPair(t, 1)
	b := watch(t, d.nb)
	for range 2 {
		d.post(d.b, 8)
		d.send(d.a, 1)
	}
	d.run()
	b.want(vipl.AsyncError{VI: d.b, CQ: cq, Resource: vipl.ResourceCQ, Code: vipl.CodeVIOverrun, Err: vipl.ErrResource})
}

func TestAsyncRDMAWriteForbidden(t *testing.T) {
	for _, attr := range []*vipl.Attributes{nil, loose()} {
		d := newDuo(t, attr, attr)
		a, b := watch(t, d.na), watch(t, d.nb)
		d.write(d.a, 8, 4096, 1, false)
		d.run()
		forbidden := at(d.b, vipl.CodeRDMAWProt, vipl.StatusOpRemoteRDMAWrite, vipl.ErrRDMA)
		if attr != nil {
			b.want(forbidden)
			d.post(d.b, 8)
			d.write(d.a, 8, 4096, 1, true) // the receive says it instead
			d.run()
			b.want()
			continue
		}
		b.want(forbidden, lost(d.b, vipl.ErrRDMA))
		a.want(lost(d.a, vipl.ErrRDMA))
	}
}

// waiting returns the frames on their way to one end of a memory link.
func (l *memLink) waiting() (frames [][]byte) {
	for k := l.head + l.lent; k < l.tail; k++ {
		frames = append(frames, l.slots[k%memSlots][:l.lens[k%memSlots]])
	}
	return frames
}

func TestAsyncRDMAWriteDamaged(t *testing.T) {
	attr := loose()
	attr.WholeCRC = true
	d := newDuo(t, attr, attr)
	b := watch(t, d.nb)
	buf, h := d.buffer(d.nb, 64, &vipl.MemAttributes{EnableRDMAWrite: true})
	d.post(d.b, 64)
	for _, imm := range []bool{false, true} {
		d.write(d.a, 8, vipl.VirtualAddress(buf), h, imm)
		frames := d.links[1].waiting()
		frames[len(frames)-1][ethertype.HeaderSize+ethertype.RDMASize+3] ^= 0x10
		d.run()
		b.want(at(d.b, vipl.CodeRDMAWData, vipl.StatusOpRemoteRDMAWrite, nil))
	}
	if buf[3] != 0xA5 || d.nb.Snapshot().Dropped[drops.CRC] != 2 || d.b.Snapshot().RecvUntaken > 0 {
		t.Errorf("memory %#x, %d drops, %d receives completed", buf[3], d.nb.Snapshot().Dropped[drops.CRC], d.b.Snapshot().RecvUntaken)
	}
	d.send(d.a, 8) // a damaged frame of another kind is only counted
	frames := d.links[1].waiting()
	frames[len(frames)-1][ethertype.HeaderSize+3] ^= 0x10
	d.run()
	b.want()
	if n := d.b.Snapshot().Dropped[drops.CRC]; n != 3 {
		t.Errorf("the VI counted %d damaged frames, want 3", n)
	}
}

func TestAsyncRDMAWriteAborted(t *testing.T) {
	const size = 5000 // four frames
	for drop := range 4 {
		t.Run(fmt.Sprint("frame", drop), func(t *testing.T) {
			d := newDuo(t, loose(), loose())
			b := watch(t, d.nb)
			buf, h := d.buffer(d.nb, size, &vipl.MemAttributes{EnableRDMAWrite: true})
			d.post(d.b, 8)
			d.write(d.a, size, vipl.VirtualAddress(buf), h, false)
			frames := d.links[1].waiting()
			if len(frames) != 4 {
				t.Fatalf("%d frames, want 4", len(frames))
			}
			clear(frames[drop]) // so that it is none of ours
			d.run()
			b.want()
			d.send(d.a, 8) // whatever comes later
			d.run()
			b.want(at(d.b, vipl.CodeRDMAWAbort, vipl.StatusOpRemoteRDMAWrite, nil))
			for range 2 {
				d.write(d.a, size, vipl.VirtualAddress(buf), h, false)
				d.write(d.a, 1, vipl.VirtualAddress(buf), h, false)
				d.run()
				b.want()
			}
		})
	}
}

func TestAsyncRDMARead(t *testing.T) {
	d := newDuo(t, nil, nil)
	a, b := watch(t, d.na), watch(t, d.nb)
	_, h := d.buffer(d.nb, 64, nil) // without the right
	buf, lh := d.buffer(d.na, 64, nil)
	info, _ := d.nb.QueryMem(h)
	r := &vipl.Descriptor{Op: vipl.OpRDMARead, Segs: []vipl.Segment{{Data: buf, Handle: lh}}, Remote: vipl.RemoteSegment{Addr: info.Addr, Handle: h}}
	if err := d.a.PostSend(r); err != nil {
		t.Fatal(err)
	}
	d.run()
	b.want(at(d.b, vipl.CodeRDMARProt, vipl.StatusOpRDMARead, vipl.ErrRDMA), lost(d.b, vipl.ErrRDMA))
	a.want(lost(d.a, vipl.ErrRDMA))
}

func TestAsyncAltered(t *testing.T) {
	d := newDuo(t, nil, nil)
	b := watch(t, d.nb)
	r := d.post(d.b, 8)
	h := r.Segs[0].Handle
	r.Segs[0].Handle++
	d.send(d.a, 8)
	d.run()
	b.want(vipl.AsyncError{VI: d.b, Descriptor: r, Op: vipl.StatusOpReceive, Resource: vipl.ResourceDescriptor, Code: vipl.CodeCompProt, Err: vipl.ErrArgument})
	x, err := d.b.RecvDone()
	d.took(x, err, r, vipl.StatusOpReceive|vipl.StatusProtectionError)
	r.Segs[0].Handle = h
	if err := d.b.PostRecv(r); err != nil {
		t.Errorf("post it as it was: %v", err)
	}
}

func TestAsyncRDMATransport(t *testing.T) {
	d := newDuo(t, nil, nil)
	a := watch(t, d.na)
	buf, h := d.buffer(d.nb, 64, &vipl.MemAttributes{EnableRDMAWrite: true})
	s := d.write(d.a, 8, vipl.VirtualAddress(buf), h, false)
	for range 100_000 { // the peer is silent
		d.na.Poll()
		if *d.links[0].clock += 1_000_000; d.a.State() == vipl.StateError {
			break
		}
	}
	broken := at(d.a, vipl.CodeRDMATransport, vipl.StatusOpRDMAWrite, vipl.ErrUnreachable)
	broken.Descriptor = s
	a.want(lost(d.a, vipl.ErrUnreachable), broken)
}

func TestAsyncCatastrophic(t *testing.T) {
	d := newDuo(t, nil, nil)
	a := watch(t, d.na)
	d.links[0].dead = true
	d.run()
	a.want(vipl.AsyncError{Resource: vipl.ResourceNIC, Code: vipl.CodeCatastrophic, Err: vipl.ErrLink}, lost(d.a, vipl.ErrLink))
}

// TestAsyncDefault: without a handler errors are counted and logged, sparsely;
// nil restores that.
func TestAsyncDefault(t *testing.T) {
	var log bytes.Buffer
	links := [2]*memLink{}
	links[0], links[1] = memPair(1500)
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: links[0], Seed: 1, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	v, _ := n.CreateVI(nil, nil, nil)
	bad := &vipl.Descriptor{Segs: []vipl.Segment{{Data: make([]byte, 4), Handle: 77}}}
	for range 20 {
		v.PostSend(bad)
	}
	n.FlushLog()
	if got := strings.Count(log.String(), "code=post_desc"); got != 5 { // 1, 2, 4, 8, 16
		t.Errorf("20 errors gave %d lines, want 5:\n%s", got, log.String())
	}
	a := watch(t, n)
	log.Reset()
	for range 12 {
		v.PostSend(bad)
	}
	n.FlushLog()
	if len(a.got) != 12 || log.Len() > 0 {
		t.Errorf("%d errors told, want 12; logged: %s", len(a.got), log.String())
	}
	n.SetErrorHandler(nil)
	for range 32 {
		v.PostSend(bad)
	}
	n.FlushLog()
	if len(a.got) != 12 || strings.Count(log.String(), "code=post_desc") != 1 {
		t.Errorf("after nil: %d errors told, logged: %s", len(a.got), log.String())
	}
	s := n.Snapshot()
	if text, err := json.Marshal(s.Errors); err != nil || string(text) != `{"post_desc":64}` {
		t.Errorf("counted %s, %v", text, err)
	}
}

// TestAsyncSlowHandler: errors behind a handler that does not return are
// bounded and counted.
func TestAsyncSlowHandler(t *testing.T) {
	d := newDuo(t, nil, nil)
	bad := &vipl.Descriptor{Segs: []vipl.Segment{{Data: make([]byte, 4), Handle: 77}}}
	told := 0
	d.na.SetErrorHandler(func(vipl.AsyncError) {
		if told++; told == 1 {
			for range 2000 {
				d.a.PostSend(bad)
			}
		}
	})
	d.a.PostSend(bad)
	s := d.na.Snapshot()
	if told != 1025 || s.ErrorsLost != 2000-1024 || s.Errors[vipl.CodePostDesc] != 2001 {
		t.Errorf("told %d, lost %d, of %d", told, s.ErrorsLost, s.Errors[vipl.CodePostDesc])
	}
}

func TestAsyncNames(t *testing.T) {
	seen := map[string]bool{"": true, "invalid": true}
	for i := range (vipl.ErrorCounts{}) {
		c := vipl.ErrorCode(i)
		if seen[c.String()] {
			t.Errorf("code %d is called %q", c, c)
		}
		seen[c.String()] = true
	}
	e := vipl.AsyncError{Resource: vipl.ResourceCQ, Code: vipl.CodeVIOverrun, Err: vipl.ErrResource}
	if got := e.Error(); !strings.Contains(got, "vi_overrun") || !strings.Contains(got, "CQ") || !errors.Is(e, vipl.ErrResource) {
		t.Errorf("%q", got)
	}
}
