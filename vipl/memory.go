package vipl

import "strconv"

// MemHandle names a registered region of one NIC (VIP_MEM_HANDLE): a slot in
// its table and the slot's generation, so that a stale handle is told from a
// new one. The zero MemHandle names nothing.
type MemHandle uint32

const (
	slotBits = 20
	slotMask = 1<<slotBits - 1
)

// Ptag is a protection tag (VIP_PROTECTION_HANDLE). A VI can use a region only
// if both carry the same tag. Tag 0 is the NIC's own: it always exists and is
// what nil attributes mean.
type Ptag uint32

// MemAttributes are a region's attributes (VIP_MEM_ATTRIBUTES). Nil means the
// default tag and no rights for peers.
type MemAttributes struct {
	Ptag            Ptag
	EnableRDMAWrite bool // peers may write to the region
	EnableRDMARead  bool // peers may read from the region
}

// MemInfo is what QueryMem returns.
type MemInfo struct {
	MemAttributes
	Addr   uint64 // virtual address of the first byte
	Len    int
	Locked bool // the pages cannot be moved out of memory
}

// region is a slot of the table. A free slot has a nil buf.
type region struct {
	buf    []byte
	addr   uintptr
	attr   MemAttributes
	gen    uint32 // counts registrations of this slot, never 0 while in use
	posted int32  // posted descriptors that refer to it
	mapped bool   // the library's own memory, outside the Go heap
	locked bool
}

// memTable holds a NIC's regions and protection tags. The NIC's lock guards it.
type memTable struct {
	regions  []region
	free     []uint32
	ptags    map[Ptag]int // regions and VIs that carry the tag
	lastPtag Ptag
	retired  map[MemHandle][]byte // of a closed NIC: memory from AllocMem
}

func (t *memTable) lookup(h MemHandle) *region {
	slot := uint32(h) & slotMask
	if int(slot) >= len(t.regions) {
		return nil
	}
	r := &t.regions[slot]
	if r.buf == nil || r.gen != uint32(h)>>slotBits {
		return nil
	}
	return r
}

// hasPtag reports whether the tag exists.
func (t *memTable) hasPtag(p Ptag) bool {
	_, ok := t.ptags[p]
	return ok || p == 0
}

func (t *memTable) refPtag(p Ptag, by int) {
	if p != 0 {
		t.ptags[p] += by
	}
}

// check validates d's segments for a VI with tag p and returns the bytes they
// hold. It notes the use in each region; release takes that back.
func (t *memTable) check(op string, d *Descriptor, p Ptag) (total uint64, err error) {
	for i := range d.Segs {
		s := &d.Segs[i]
		if len(s.Data) == 0 {
			continue
		}
		r := t.lookup(s.Handle)
		if r == nil || r.attr.Ptag != p || !r.contains(addressOf(s.Data), uint64(len(s.Data))) {
			t.release(d.Segs[:i])
			return 0, t.explain(op, i, s, r, p)
		}
		r.posted++
		total += uint64(len(s.Data))
	}
	return total, nil
}

// explain says what check found wrong with segment i.
func (t *memTable) explain(op string, i int, s *Segment, r *region, p Ptag) error {
	switch {
	case r == nil:
		return opError(op, ErrInvalidParameter, "segment %d: memory handle %v names no registered region", i, s.Handle)
	case r.attr.Ptag != p:
		return opError(op, ErrInvalidPtag, "segment %d: region %v has tag %d, the VI has tag %d", i, s.Handle, r.attr.Ptag, p)
	}
	return opError(op, ErrInvalidParameter, "segment %d: %d bytes at %#x lie outside region %v (%d bytes at %#x)",
		i, len(s.Data), addressOf(s.Data), s.Handle, len(r.buf), r.addr)
}

// release takes back what check noted. It returns how many bytes the segments
// hold, and false when they are not those that check has seen.
func (t *memTable) release(segs []Segment) (total uint64, ok bool) {
	ok = true
	for i := range segs {
		if s := &segs[i]; len(s.Data) > 0 {
			total += uint64(len(s.Data))
			if r := t.lookup(s.Handle); r != nil && r.posted > 0 {
				r.posted--
			} else {
				ok = false
			}
		}
	}
	return total, ok
}

// target returns the n bytes at addr that a peer wants to write through a VI
// with tag p, or nil when the region, the tag or the rights forbid it.
func (t *memTable) target(addr uint64, n uint32, h MemHandle, p Ptag) []byte {
	if r := t.lookup(h); r != nil && r.attr.EnableRDMAWrite {
		return r.part(addr, n, p)
	}
	return nil
}

// source returns the n bytes at addr that a peer wants to read, like target.
func (t *memTable) source(addr uint64, n uint32, h MemHandle, p Ptag) []byte {
	if r := t.lookup(h); r != nil && r.attr.EnableRDMARead {
		return r.part(addr, n, p)
	}
	return nil
}

// part returns the n bytes at addr, or nil when the tag is not p or any of them
// lies outside.
func (r *region) part(addr uint64, n uint32, p Ptag) []byte {
	if r.attr.Ptag != p || uint64(uintptr(addr)) != addr || !r.contains(uintptr(addr), uint64(n)) {
		return nil
	}
	at := uintptr(addr) - r.addr
	return r.buf[at : at+uintptr(n) : at+uintptr(n)]
}

// contains reports whether n bytes at addr lie in r. The comparison cannot
// wrap, whatever a peer sent.
func (r *region) contains(addr uintptr, n uint64) bool {
	return addr >= r.addr && uint64(addr-r.addr) <= uint64(len(r.buf)) && n <= uint64(len(r.buf))-uint64(addr-r.addr)
}

// String prints slot and generation.
func (h MemHandle) String() string {
	return strconv.Itoa(int(uint32(h)&slotMask)) + "." + strconv.Itoa(int(uint32(h)>>slotBits))
}

// CreatePtag makes a new protection tag (VipCreatePtag). A NIC has at most
// MaxPtags.
func (n *NIC) CreatePtag() (Ptag, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	t := &n.mem
	switch {
	case n.closed:
		return 0, ErrClosed
	case len(t.ptags) >= MaxPtags:
		return 0, opError("create protection tag", ErrResource, "all %d tags are in use; destroy some", MaxPtags)
	}
	for t.lastPtag++; t.hasPtag(t.lastPtag); t.lastPtag++ { // after 2^32 of them
	}
	t.ptags[t.lastPtag] = 0
	return t.lastPtag, nil
}

// DestroyPtag drops a tag (VipDestroyPtag). It fails with ErrResource while a
// region or a VI carries it.
func (n *NIC) DestroyPtag(p Ptag) error {
	n.eng.Lock()
	defer n.eng.Unlock()
	users, ok := n.mem.ptags[p]
	switch {
	case !ok:
		return opError("destroy protection tag", ErrInvalidPtag, "tag %d does not exist", p)
	case users > 0:
		return opError("destroy protection tag", ErrResource, "tag %d is in use by %d regions and VIs", p, users)
	}
	delete(n.mem.ptags, p)
	return nil
}

// RegisterMem makes buf known for transfers and returns its handle
// (VipRegisterMem). Nil attributes mean the default tag and no rights for
// peers. The NIC keeps buf alive and in place (Go does not move heap memory)
// until DeregisterMem or Close. Regions may overlap. It does not lock the
// pages: nothing below writes to them behind the kernel's back. A NIC has at most
// MaxRegions, of MaxRegisterBytes together.
func (n *NIC) RegisterMem(buf []byte, attr *MemAttributes) (MemHandle, error) {
	return n.register(buf, attr, false, false)
}

func (n *NIC) register(buf []byte, attr *MemAttributes, mapped, locked bool) (MemHandle, error) {
	if len(buf) == 0 {
		return 0, opError("register memory", ErrInvalidParameter, "the buffer is empty")
	}
	var a MemAttributes
	if attr != nil {
		a = *attr
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	t := &n.mem
	switch {
	case n.closed:
		return 0, ErrClosed
	case !t.hasPtag(a.Ptag):
		return 0, opError("register memory", ErrInvalidPtag, "tag %d does not exist on this NIC", a.Ptag)
	case len(buf) > MaxRegisterBytes-n.stats.RegionBytes:
		return 0, opError("register memory", ErrResource, "%d bytes on top of %d are more than %d; deregister some",
			len(buf), n.stats.RegionBytes, MaxRegisterBytes)
	}
	var slot uint32
	if last := len(t.free) - 1; last >= 0 {
		slot, t.free = t.free[last], t.free[:last]
	} else if len(t.regions) < MaxRegions {
		slot = uint32(len(t.regions))
		t.regions = append(t.regions, region{})
	} else {
		return 0, opError("register memory", ErrResource, "all %d regions are in use; deregister some", MaxRegions)
	}
	r := &t.regions[slot]
	gen := r.gen%(1<<(32-slotBits)-1) + 1
	*r = region{buf: buf, addr: addressOf(buf), attr: a, gen: gen, mapped: mapped, locked: locked}
	t.refPtag(a.Ptag, 1)
	n.stats.Regions++
	n.stats.RegionBytes += len(buf)
	return MemHandle(gen<<slotBits | slot), nil
}

// DeregisterMem forgets a region (VipDeregisterMem); memory that AllocMem made
// is unmapped and must not be touched again. It fails with ErrInvalidState
// while posted descriptors refer to the region. A peer's RDMA write or read that
// arrives later is refused; a read that is being served ends the connection with
// ErrRDMA, unless its answer has arrived.
//
// Once the NIC has been closed it fails with ErrClosed, except for memory from
// AllocMem, whose addresses Close leaves taken: it gives them back.
func (n *NIC) DeregisterMem(h MemHandle) error {
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.closed {
		return n.mem.giveBack(h)
	}
	r := n.mem.lookup(h)
	switch {
	case r == nil:
		return opError("deregister memory", ErrInvalidParameter, "handle %v names no registered region", h)
	case r.posted > 0:
		return opError("deregister memory", ErrInvalidState, "%d posted descriptors still refer to region %v", r.posted, h)
	}
	n.letGo()
	n.drop(r)
	n.mem.free = append(n.mem.free, uint32(h)&slotMask)
	return nil
}

// retire keeps the addresses of a region of the library's own memory, whose NIC is
// being closed, until giveBack.
func (t *memTable) retire(h MemHandle, r *region) {
	retire(r.buf)
	r.mapped = false
	if t.retired == nil {
		t.retired = map[MemHandle][]byte{}
	}
	t.retired[h] = r.buf
}

// giveBack unmaps a region that retire has kept.
func (t *memTable) giveBack(h MemHandle) error {
	buf, ok := t.retired[h]
	if !ok {
		return ErrClosed
	}
	delete(t.retired, h)
	unmap(buf)
	return nil
}

// letGo makes sure that no frame of the batch refers to memory that is about to
// be the caller's alone: a full link may have left some, copies of frames that
// have arrived since, or of answers to a peer's reads.
func (n *NIC) letGo() {
	if n.tx.n > 0 {
		n.tx.flush(n)
		n.tx.discard(n)
	}
}

// drop empties a slot, which keeps its generation.
func (n *NIC) drop(r *region) {
	n.mem.refPtag(r.attr.Ptag, -1)
	n.stats.Regions--
	n.stats.RegionBytes -= len(r.buf)
	if r.mapped {
		unmap(r.buf)
	}
	*r = region{gen: r.gen}
}

// AllocMem returns size bytes of new registered memory, rounded up to whole
// pages, outside the Go heap and locked where the limit allows it (QueryMem
// tells). Regions of 2 MiB and more get huge pages if the kernel has some, and
// carry long messages faster for it. The slice is valid until DeregisterMem;
// NIC.Close makes it zeros.
func (n *NIC) AllocMem(size int, attr *MemAttributes) ([]byte, MemHandle, error) {
	if size <= 0 {
		return nil, 0, opError("allocate memory", ErrInvalidParameter, "%d bytes", size)
	}
	buf, locked, err := mapPages(size)
	if err != nil {
		return nil, 0, opError("allocate memory", ErrResource, "mmap of %d bytes: %v", size, err)
	}
	h, err := n.register(buf, attr, true, locked)
	if err != nil {
		unmap(buf)
		return nil, 0, err
	}
	if !locked {
		n.sayUnlocked(size)
	}
	return buf, h, nil
}

// QueryMem returns a region's attributes and place (VipQueryMem).
func (n *NIC) QueryMem(h MemHandle) (MemInfo, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.closed {
		return MemInfo{}, ErrClosed
	}
	r := n.mem.lookup(h)
	if r == nil {
		return MemInfo{}, opError("query memory", ErrInvalidParameter, "handle %v names no registered region", h)
	}
	return MemInfo{MemAttributes: r.attr, Addr: uint64(r.addr), Len: len(r.buf), Locked: r.locked}, nil
}
