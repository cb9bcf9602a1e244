package layertest

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/splitc/internal/msg"
	"github.com/bobnet-go/bobnet/vipl"
)

// VIs is an attack on a layer over virtual interfaces.
type VIs struct {
	Layer string            // its name
	Kinds int               // VIs between two ranks
	Attrs vipl.Attributes   // of each
	Count int               // number of messages of the attack
	Begin func(vi *vipl.VI) // called when all VIs are connected; may be nil
	Heap  bool              // the victim may read and write FoeHeap bytes of memory
	At    vipl.RemoteSegment
	// Next writes a message for the victim, and returns its length; 0 means no message. heard is
	// the oldest message of the victim that Next has not received yet, or nil.
	Next func(f *Foe, kind int, heard, m []byte) int
	// Send changes a descriptor to another operation than a send; it may be nil.
	Send func(f *Foe, d *vipl.Descriptor)
}

// foeSize is the maximum length of a hostile message in bytes, and foeDepth the maximum number of
// them in flight.
const (
	foeSize  = 9000
	foeDepth = 64
)

// foeVIs is an attack in progress.
type foeVIs struct {
	*VIs
	*Foe
	nic   *vipl.NIC
	cq    *seam.Queue
	ptag  vipl.Ptag
	heard [][][]byte         // by kind
	free  []*vipl.Descriptor // of sends
}

// Attack implements Hostility.Attack.
func (v *VIs) Attack(f *Foe, c layer.Config) (err error) {
	a := &foeVIs{VIs: v, Foe: f, nic: c.NIC, heard: make([][][]byte, v.Kinds)}
	defer func() { f.Over = true }()
	if a.cq, err = seam.NewQueue(a.nic, 4*foeDepth*v.Kinds, 2*foeDepth); err != nil {
		return err
	}
	if a.ptag, err = a.nic.CreatePtag(); err != nil {
		return err
	}
	if v.Heap {
		if err := a.heap(); err != nil {
			return err
		}
	}
	c.Watch.Begin()
	vis, _, err := mesh.Connect(bg, mesh.Config{Config: c, Name: v.Layer, Kinds: v.Kinds, Make: a.open})
	if err != nil {
		return err
	}
	for range foeDepth {
		if err := a.buffer(func(d *vipl.Descriptor) error { a.free = append(a.free, d); return nil }); err != nil {
			return err
		}
	}
	if v.Begin != nil {
		v.Begin(vis[0][0])
	}
	for i := 0; i < v.Count && !f.Over && vis[0][i%v.Kinds].Err() == nil; i++ {
		if err := a.step(vis[0][i%v.Kinds], i%v.Kinds); err != nil {
			return err
		}
	}
	for f.Over = true; !f.Done; { // the victim detects the end, and leaves
		a.take()
		if err := f.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// heap allocates the memory that the victim may read and write.
func (a *foeVIs) heap() error {
	handle, err := a.nic.RegisterMem(make([]byte, FoeHeap), &vipl.MemAttributes{Ptag: a.ptag, EnableRDMARead: true, EnableRDMAWrite: true})
	if err != nil {
		return err
	}
	info, err := a.nic.QueryMem(handle)
	a.At = vipl.RemoteSegment{Handle: handle, Addr: info.Addr}
	return err
}

// buffer passes a descriptor with its own memory to use.
func (a *foeVIs) buffer(use func(d *vipl.Descriptor) error) error {
	mem := make([]byte, foeSize)
	handle, err := a.nic.RegisterMem(mem, &vipl.MemAttributes{Ptag: a.ptag})
	if err != nil {
		return err
	}
	return use(&vipl.Descriptor{Segs: []vipl.Segment{{Data: mem, Handle: handle}}, Context: mem})
}

func (a *foeVIs) open(_, kind int) (*vipl.VI, error) {
	attrs := a.Attrs
	attrs.Ptag, attrs.QueueDepth = a.ptag, 2*foeDepth
	vi, err := a.nic.CreateVI(&attrs, a.cq.CQ, a.cq.CQ)
	if err != nil {
		return nil, err
	}
	vi.Context = kind
	for range 2 * foeDepth {
		if err := a.buffer(vi.PostRecv); err != nil {
			return nil, err
		}
	}
	return vi, nil
}

// step sends a message, and processes what has arrived, or waits a little.
func (a *foeVIs) step(vi *vipl.VI, kind int) error {
	a.take()
	if len(a.free) > 0 {
		d := a.free[len(a.free)-1]
		mem := d.Context.([]byte)
		var heard []byte
		if q := a.heard[kind]; len(q) > 0 {
			heard, a.heard[kind] = q[0], q[1:]
		}
		if n := a.Next(a.Foe, kind, heard, mem); n > 0 {
			*d = vipl.Descriptor{Segs: []vipl.Segment{{Data: mem[:n], Handle: d.Segs[0].Handle}}, Op: vipl.OpSend, Context: mem}
			if a.Send != nil {
				a.Send(a.Foe, d)
			}
			a.free = a.free[:len(a.free)-1]
			if err := vi.PostSend(d); err != nil {
				return err
			}
		}
	}
	if len(a.heard[kind]) > 0 && a.RNG.IntN(8) > 0 {
		return nil
	}
	return a.Sleep(time.Duration(a.RNG.IntN(300)) * time.Microsecond)
}

// take processes the messages that have arrived.
func (a *foeVIs) take() {
	done, err := a.cq.Poll()
	if err != nil && !errors.Is(err, vipl.ErrNotDone) {
		return
	}
	for _, c := range done {
		d, mem := c.Descriptor, c.Descriptor.Context.([]byte)
		if !c.Recv {
			a.free = append(a.free, d)
			continue
		}
		if c.Err != nil {
			continue
		}
		kind := c.VI.Context.(int)
		a.heard[kind] = append(a.heard[kind], append([]byte(nil), mem[:d.Length]...))
		*d = vipl.Descriptor{Segs: []vipl.Segment{{Data: mem, Handle: d.Segs[0].Handle}}, Context: mem}
		_ = c.VI.PostRecv(d)
	}
}

// Message writes a message of package msg, and returns its length. Most messages are valid or
// nearly valid; lie in 100 are not.
func (f *Foe) Message(heard, m []byte, lie int) int {
	le := binary.LittleEndian
	if f.RNG.IntN(100) < lie {
		n := f.RNG.IntN(300)
		for i := range n {
			m[i] = byte(f.RNG.Uint32())
		}
		m[0] = byte(f.RNG.IntN(msg.NoOp + 2))
		m[1] = byte(f.RNG.IntN(3))
		return n
	}
	clear(m[:300])
	if len(heard) >= msg.HeaderSize && msg.HasReply(heard[0]) {
		copy(m[2:4], heard[2:4])
		switch heard[0] {
		case msg.Get:
			m[0] = msg.Got
			return msg.HeaderSize + int(le.Uint32(heard[12:]))
		case msg.Put:
			m[0] = msg.PutDone
			return msg.HeaderSize
		}
		m[0] = msg.Result
		return msg.HeaderSize + f.RNG.IntN(layer.MaxCall+1)
	}
	if len(heard) > 0 {
		m[0], m[1] = msg.NoOp, 1
		return msg.HeaderSize
	}
	if f.RNG.IntN(5) == 0 {
		return f.stores(m)
	}
	m[0] = []byte{msg.Get, msg.Put, msg.Store, msg.Call}[f.RNG.IntN(4)]
	le.PutUint64(m[4:], uint64(f.RNG.IntN(FoeHeap+100)))
	switch m[0] {
	case msg.Get:
		le.PutUint32(m[12:], uint32(f.RNG.IntN(65)))
		return 16
	case msg.Call:
		return 8 + f.RNG.IntN(60)
	}
	return 12 + f.RNG.IntN(65)
}

// stores writes a message of several stores.
func (f *Foe) stores(m []byte) int {
	m[0] = msg.Stores
	n := msg.HeaderSize
	for range 1 + f.RNG.IntN(3) {
		length := 1 + f.RNG.IntN(30)
		binary.LittleEndian.PutUint64(m[n:], uint64(f.RNG.IntN(FoeHeap+100))|uint64(length)<<56)
		n += 8 + length
	}
	return n
}
