package tun

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
)

// streams returns both ends of a stream between two NICs of this machine, over shared memory.
func streams(t *testing.T, cfg stream.Config) (a, b *stream.Conn) {
	var hosts [2]*stream.Host
	for i := range hosts {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nic.Close() })
		cfg.NIC = nic
		if hosts[i], err = stream.Open(t.Context(), &cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { hosts[i].Close() })
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	l, err := (&stream.ListenConfig{Host: hosts[0]}).Listen(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if a, err = (&stream.Dialer{Host: hosts[1]}).Dial(ctx, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.AcceptStream(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	b.SetDeadline(time.Now().Add(30 * time.Second))
	return a, b
}

// TestReader: packets of any length for two neighbours, in random order, arrive at the right
// neighbour in order. Most are read straight into the stream's send buffer. Packets for nobody
// leave nothing there.
func TestReader(t *testing.T) {
	h := &Tun{table: newTable()}
	var far [2]*stream.Conn
	for i := range far {
		var near *stream.Conn
		near, far[i] = streams(t, stream.Config{ReadBuffer: readBuffer, WriteBuffer: writeBuffer})
		p := &peer{conn: near, mtu: MaxMTU, queue: make(chan *buffer, queuePackets), over: make(chan struct{})}
		h.table.found(addr(1+i), p)
		go h.write(p)
		t.Cleanup(p.end)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	r := &reader{t: h, own: newBuffer()}
	inPlace := 0
	for round := range 40 {
		var want [2][][]byte
		to := rng.IntN(2)
		for range 1 + rng.IntN(8) {
			if rng.IntN(3) == 0 {
				to = 1 - to
			}
			p := packet4(addr(9), addr(1+to), 17, make([]byte, rng.IntN(1<<rng.IntN(16))))
			for i := range p[header4:] {
				p[header4+i] = byte(rng.Uint32())
			}
			want[to] = append(want[to], p)
			if rng.IntN(4) == 0 { // the packet is for nobody, and its memory is reused for the next packet
				p = packet4(addr(9), addr(255), 17, make([]byte, 2000))
				p[16] = 224
				want[to] = want[to][:len(want[to])-1]
			}
			room := r.room()
			if clear(room[:vnetSize]); r.held != nil && p[16] != 224 && r.last == h.table.peer(addr(1+to)) {
				inPlace++
			}
			r.took(vnetSize + copy(room[vnetSize:], p))
			if r.held != nil {
				t.Fatal("the memory of a stream is held when the packet has been sent")
			}
		}
		for i := range far {
			from := newRecords(far[i])
			for k, p := range want[i] {
				got, err := from.next()
				if err != nil || !bytes.Equal(slices.Concat(got.parts[:]...)[vnetSize:], p) {
					t.Fatalf("round %d, neighbour %d, packet %d of %d bytes: %v", round, i, k, len(p), err)
				}
			}
			from.end()
		}
	}
	if inPlace < 20 {
		t.Errorf("%d packets were read in place", inPlace)
	}
}
