package vipl_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// echoer sends every message of size bytes back until the VI fails.
func echoer(v *vipl.VI, size int) {
	in, _ := newBuffers(v.NIC(), 8, size)
	out, _ := newBuffers(v.NIC(), 8, size)
	for i := range in.descs {
		v.PostRecv(&in.descs[i])
	}
	for i := 0; ; i++ {
		d, err := v.RecvWait(bg)
		if err != nil {
			return
		}
		if i >= len(out.descs) {
			v.SendWait(bg)
		}
		v.PostSend(&out.descs[i%len(out.descs)])
		v.PostRecv(d)
	}
}

// BenchmarkPingPong measures half a round trip of 64 bytes between two NICs of
// this process, which share its processors with the Go runtime; bobnet perf
// measures between processes.
func BenchmarkPingPong(b *testing.B) {
	for _, level := range levels {
		for _, spin := range []time.Duration{time.Second, -1} {
			name := level.String() + "/spin"
			if spin < 0 {
				name = level.String() + "/block"
			}
			b.Run(name, func(b *testing.B) { benchPingPong(b, level, spin, 64) })
		}
	}
}

func benchPingPong(b *testing.B, level reliability.Level, spin time.Duration, size int) {
	x, y := join(b, vethNICs(b, 1500, vipl.Config{Spin: spin}, nil), &vipl.Attributes{Reliability: level})
	go echoer(y, size)
	in, _ := newBuffers(x.NIC(), 8, size)
	out, _ := newBuffers(x.NIC(), 8, size)
	for i := range in.descs {
		x.PostRecv(&in.descs[i])
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i >= len(out.descs) {
			if _, err := x.SendWait(bg); err != nil {
				b.Fatal(err, x.Err())
			}
		}
		if err := x.PostSend(&out.descs[i%len(out.descs)]); err != nil {
			b.Fatal(err)
		}
		d, err := x.RecvWait(bg)
		if err != nil {
			b.Fatal(err, x.Err())
		}
		x.PostRecv(d)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/one-way")
}

// BenchmarkHostStream sends messages of 1 MiB from one NIC of a host to another
// one, a window of them at a time; compare with BenchmarkHandOff of
// internal/link/shm:
//
//	go test ./vipl ./internal/link/shm -run '^$' -bench 'HostStream|HandOff' -count 5
func BenchmarkHostStream(b *testing.B) {
	const size, depth = 1 << 20, 4
	var nics [2]*vipl.NIC
	for i := range nics {
		n, err := vipl.Open(b.Context(), &vipl.Config{Driver: "shm"})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { n.Close() })
		nics[i] = n
	}
	from, to := join(b, nics, nil)
	tx, rx := descriptors(b, nics[0], depth, size), descriptors(b, nics[1], depth, size)
	for _, d := range rx {
		if err := to.PostRecv(d); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(size)
	b.ResetTimer()
	received, posted := make(chan error, 1), make(chan struct{}, b.N+depth)
	for range depth {
		posted <- struct{}{}
	}
	go func() {
		for i := range b.N {
			d, err := to.RecvWait(bg)
			if err == nil && i+depth < b.N {
				err = to.PostRecv(d)
			}
			if err != nil {
				received <- err
				close(posted)
				return
			}
			posted <- struct{}{}
		}
		received <- nil
	}()
	for i := range b.N {
		d := tx[i%depth]
		if i >= depth {
			var err error
			if d, err = from.SendWait(bg); err != nil {
				b.Fatal(err)
			}
		}
		<-posted
		if err := from.PostSend(d); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-received; err != nil {
		b.Fatal(err)
	}
	st := from.Snapshot()
	b.ReportMetric(float64(st.Retransmits)/float64(b.N), "retransmits/op")
}

// descriptors returns n descriptors, each with size bytes of registered memory.
func descriptors(b *testing.B, nic *vipl.NIC, n, size int) (ds []*vipl.Descriptor) {
	for range n {
		buf, mem, err := nic.AllocMem(size, nil)
		if err != nil {
			b.Fatal(err)
		}
		ds = append(ds, &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: mem}}})
	}
	return ds
}

// memLink is one end of a wire in memory, without a kernel: what remains of a
// benchmark over it is Bobnet's own cost. One goroutine drives both ends.
type memLink struct {
	peer   *memLink
	mac    ethertype.MAC
	mtu    int
	slots  [][]byte
	lens   []int
	head   int
	tail   int
	lent   int
	clock  *int64
	frames uint64
	dead   bool // somebody has closed it
	drops  bool // it drops frames that it has no room for; else its peer keeps them
	onSend func(frame []byte)
	memory []byte // of the slots
}

const memSlots = 1024

// spareMemory is that of links whose tests have ended: fuzzing makes hundreds a second, of 1.5 MB each.
var spareMemory sync.Pool

// slotMemory returns n bytes, from spareMemory if it can.
func slotMemory(n int) []byte {
	if b, _ := spareMemory.Get().([]byte); cap(b) >= n {
		return b[:n]
	}
	return make([]byte, n)
}

func memPair(mtu int) (a, b *memLink) { return memPairSlots(mtu, memSlots) }

// memPairSlots returns links that hold so many frames each.
func memPairSlots(mtu, slots int) (a, b *memLink) {
	clock := new(int64)
	*clock = 1
	end := func(last byte) *memLink {
		size := mtu + ethertype.EthernetSize
		l := &memLink{mac: ethertype.MAC{2, 0, 0, 0, 0, last}, mtu: mtu, clock: clock, lens: make([]int, slots), slots: make([][]byte, slots)}
		l.memory = slotMemory(slots * size)
		for i := range l.slots {
			l.slots[i] = l.memory[i*size:][:size:size]
		}
		return l
	}
	a, b = end(1), end(2)
	a.peer, b.peer = b, a
	return a, b
}

func (l *memLink) Send(frames []transport.Frame) (int, error) {
	p := l.peer
	for i := range frames {
		if p.tail-p.head == len(p.slots) {
			if !p.drops {
				return i, nil
			}
			continue
		}
		slot := p.slots[p.tail%len(p.slots)]
		k := copy(slot, frames[i].Head)
		for _, part := range frames[i].Body {
			k += copy(slot[k:], part)
		}
		p.lens[p.tail%len(p.slots)] = k
		p.tail++
		l.frames++
		if l.onSend != nil {
			l.onSend(slot[:k])
		}
	}
	return len(frames), nil
}

func (l *memLink) Recv(views [][]byte) (int, error) {
	if l.dead {
		return 0, transport.ErrClosed
	}
	l.head += l.lent
	n := min(len(views), l.tail-l.head)
	for i := range n {
		k := (l.head + i) % len(l.slots)
		views[i] = l.slots[k][:l.lens[k]]
	}
	l.lent = n
	return n, nil
}

func (l *memLink) Ready() bool            { return l.tail-l.head > l.lent }
func (l *memLink) Wait(until int64) error { *l.clock = until; return nil }
func (l *memLink) Wake()                  {}
func (l *memLink) Now() int64             { *l.clock += 50; return *l.clock }
func (l *memLink) Stats() transport.Stats { return transport.Stats{} }
func (l *memLink) Close() error           { return nil }
func (l *memLink) Info() transport.Info {
	return transport.Info{Driver: "mem", Interface: "mem", MAC: l.mac, EtherType: ethertype.Default, Ports: transport.PortRange{Lo: 1024, Hi: 2047},
		MTU: l.mtu, Slots: len(l.slots), Virtual: true}
}

// memVIs returns two connected VIs over a memLink.
func memVIs(t testing.TB, mtu int, level reliability.Level) (a, b *vipl.VI) {
	la, lb := memPair(mtu)
	return memVIsOver(t, la, lb, level)
}

func memVIsOver(t testing.TB, la, lb transport.Link, level reliability.Level) (a, b *vipl.VI) {
	na, err := vipl.Open(t.Context(), &vipl.Config{Link: la, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	nb, err := vipl.Open(t.Context(), &vipl.Config{Link: lb, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	attr := &vipl.Attributes{Reliability: level, EnableRDMAWrite: true, EnableRDMARead: level.Reliable()}
	l, err := na.Listen(service)
	if err != nil {
		t.Fatal(err)
	}
	a, _ = na.CreateVI(attr, nil, nil)
	b, _ = nb.CreateVI(attr, nil, nil)
	if err := b.ConnectStart(l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := taken(l, nb)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AcceptStart(a); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		nb.Poll()
		na.Poll()
	}
	if a.State() != vipl.StateConnected || b.State() != vipl.StateConnected {
		t.Fatal("not connected:", a.State(), b.State())
	}
	return a, b
}

// BenchmarkEngine measures the engine's own cost of a message one way, without
// a kernel or a second processor: post, frame, parse, place, complete, take.
func BenchmarkEngine(b *testing.B) {
	for _, level := range levels {
		b.Run(level.String(), func(b *testing.B) {
			x, y := memVIs(b, 1500, level)
			xin, xout := endpoint(b, x)
			yin, yout := endpoint(b, y)
			b.ReportAllocs()
			b.ResetTimer()
			start := cpuTime()
			for range b.N {
				turn(b, x, y, xout, yin)
				turn(b, y, x, yout, xin)
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(2*b.N), "cpu-ns/message")
		})
	}
}

// cpuTime returns the processor time that the process has used, in
// nanoseconds: on a busy machine it tells more than the clock.
func cpuTime() int64 {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

func endpoint(b *testing.B, v *vipl.VI) (in, out *buffers) {
	in, _ = newBuffers(v.NIC(), 4, 64)
	out, _ = newBuffers(v.NIC(), 1, 64)
	for i := range in.descs {
		if err := v.PostRecv(&in.descs[i]); err != nil {
			b.Fatal(err)
		}
	}
	return in, out
}

// turn sends one message from x to y.
func turn(b *testing.B, x, y *vipl.VI, out, in *buffers) {
	for {
		if _, err := x.SendDone(); err == vipl.ErrQueueEmpty {
			break
		} else if err == vipl.ErrNotDone {
			b.Fatal("send not complete")
		}
	}
	if err := x.PostSend(&out.descs[0]); err != nil {
		b.Fatal(err)
	}
	d, err := y.RecvDone()
	if err != nil {
		b.Fatal(err, y.Err())
	}
	if err := y.PostRecv(d); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkEngineRate measures the engine's cost of a 64-byte message in a
// stream, both sides together.
func BenchmarkEngineRate(b *testing.B) {
	x, y := memVIs(b, 1500, reliability.ReliableDelivery)
	const depth = 256
	in, _ := newBuffers(y.NIC(), 2*depth, 64)
	out, _ := newBuffers(x.NIC(), depth, 64)
	for i := range in.descs {
		y.PostRecv(&in.descs[i])
	}
	b.ReportAllocs()
	b.ResetTimer()
	start := cpuTime()
	defer func() { b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/message") }()
	for sent, got := 0, 0; got < b.N; x.NIC().Poll() {
		for i := 0; i < depth/2 && sent < b.N; i++ {
			if sent >= depth {
				if _, err := x.SendDone(); err != nil {
					break
				}
			}
			x.PostSend(&out.descs[sent%depth])
			sent++
		}
		for {
			d, err := y.RecvDone()
			if err != nil {
				break
			}
			y.PostRecv(d)
			got++
		}
	}
}
