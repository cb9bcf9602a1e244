package udp_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/udp"
	"golang.org/x/sys/unix"
)

var seedFlag = flag.Uint64("udp.seed", 1, "seed of the mutated datagrams")

// attacker is a bare UDP socket at a block of ports, so that its frames are
// believed unless something in them is wrong.
type attacker struct {
	fd   int
	to   unix.SockaddrInet4
	rng  *rand.Rand
	mac  ethertype.MAC
	good []byte // a frame that the victim takes
	buf  []byte
}

// attackerBlock is where it is.
const attackerBlock = 5

func newAttacker(t *testing.T, victim *udp.Link, seed uint64) *attacker {
	t.Helper()
	a := &attacker{rng: rand.New(rand.NewPCG(seed, 0))}
	me := unix.SockaddrInet4{Port: udp.DefaultBasePort + attackerBlock, Addr: netip.MustParseAddr(vethtest.Loopback(66)).As4()}
	a.to = unix.SockaddrInet4{Addr: victim.Addr().As4(), Port: udp.DefaultBasePort + int(victim.Info().Ports.Lo)/1024}
	var err error
	if a.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(a.fd) })
	if err := unix.Bind(a.fd, &me); err != nil {
		t.Fatal(err)
	}
	from := victim.Info()
	copy(from.MAC[:], []byte{2, 0x75})
	copy(from.MAC[2:], me.Addr[:])
	a.mac, from.Ports.Lo = from.MAC, attackerBlock*1024+7
	a.good = linktest.NewFrame(from, victim.Info(), victim.Info().Ports.Lo, make([]byte, 40))
	return a
}

// mutate returns a frame with some bytes changed, mostly where the link looks,
// and sometimes shorter or longer.
func (a *attacker) mutate() []byte {
	r := a.rng
	f := append([]byte(nil), a.good...)
	for range r.IntN(3) {
		at := r.IntN(len(f))
		if r.IntN(2) == 0 {
			at = r.IntN(22)
		}
		switch r.IntN(3) {
		case 0:
			f[at] = byte(r.Uint32())
		case 1:
			f[at] ^= 1 << r.IntN(8)
		case 2:
			f[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[r.IntN(5)]
		}
	}
	switch r.IntN(8) {
	case 0:
		f = f[:r.IntN(len(f)+1)]
	case 1:
		f = append(f, make([]byte, r.IntN(3000))...)
	}
	return f
}

// datagrams sends one message: a frame, or many bytes that the kernel cuts up
// anywhere. It returns the datagrams.
func (a *attacker) datagrams(t *testing.T) [][]byte {
	r := a.rng
	if r.IntN(4) > 0 {
		f := a.mutate()
		if err := unix.Sendto(a.fd, f, 0, &a.to); err != nil {
			t.Fatal(err)
		}
		return [][]byte{f}
	}
	size := 1 + r.IntN(200)
	if r.IntN(2) == 0 {
		size = len(a.good)
	}
	count := 2 + r.IntN(30)
	a.buf = a.buf[:0]
	for len(a.buf) < size*count {
		f := a.mutate()
		a.buf = append(a.buf, f[:min(len(f), size)]...)
	}
	a.buf = a.buf[:size*count-r.IntN(size)]
	control := make([]byte, unix.CmsgSpace(2))
	binary.NativeEndian.PutUint64(control, uint64(unix.CmsgLen(2)))
	binary.NativeEndian.PutUint32(control[8:], unix.SOL_UDP)
	binary.NativeEndian.PutUint32(control[12:], unix.UDP_SEGMENT)
	binary.NativeEndian.PutUint16(control[16:], uint16(size))
	if _, err := unix.SendmsgN(a.fd, a.buf, control, &a.to, 0); err != nil {
		t.Fatalf("%d bytes in datagrams of %d: %v", len(a.buf), size, err)
	}
	var cut [][]byte
	for rest := a.buf; len(rest) > 0; rest = rest[len(cut[len(cut)-1]):] {
		cut = append(cut, rest[:min(size, len(rest))])
	}
	return cut
}

// wanted says, from the package comment alone, whether victim takes f.
func (a *attacker) wanted(victim transport.Info, f []byte) bool {
	if len(f) < ethertype.HeaderSize {
		return false
	}
	dst, port := f[:6], int(f[18])<<8|int(f[19])
	mine := bytes.Equal(dst, victim.MAC[:]) || dst[0]&1 == 1
	listens := port == 0 || port >= int(victim.Ports.Lo) && port <= int(victim.Ports.Hi)
	return mine && listens && bytes.Equal(f[6:12], a.mac[:]) &&
		binary.BigEndian.Uint16(f[12:]) == uint16(etherType) && f[14] == 1 && f[20]>>2 == attackerBlock
}

// TestMutated sends a million mutated datagrams. Those that the link should
// take arrive as they were sent; the others are counted.
func TestMutated(t *testing.T) {
	total := 1_000_000
	if !need.Full() {
		total = 50_000
	}
	t.Logf("seed %d; another: go test -run Mutated -udp.seed N", *seedFlag)
	l := open(t, vethtest.Loopback(67), udp.Config{})
	a := newAttacker(t, l, *seedFlag)
	views := make([][]byte, transport.MaxBatch)
	sent, taken := 0, 0
	for sent < total {
		var want [][]byte
		cut := a.datagrams(t)
		for _, f := range cut {
			if a.wanted(l.Info(), f) {
				want = append(want, f)
			}
		}
		sent, taken = sent+len(cut), taken+len(want)
		for got := 0; l.Stats().RxFiltered+uint64(taken-len(want)+got) < uint64(sent); {
			n, err := l.Recv(views[:1+a.rng.IntN(len(views))])
			if err != nil || l.Stats().RxDrops > 0 {
				t.Fatalf("Recv = %d, %v; counted %+v", n, err, l.Stats())
			}
			for _, v := range views[:n] {
				if got == len(want) || !bytes.Equal(v, want[got]) {
					t.Fatalf("after %d datagrams: received %x, which was not to be taken", sent, v)
				}
				got++
			}
		}
	}
	st := l.Stats()
	if int(st.RxFrames) != taken || int(st.RxFiltered) != sent-taken || taken < total/20 || taken > total*19/20 {
		t.Errorf("sent %d, of them to be taken %d; counted %+v", sent, taken, st)
	}
}
