package vipl

import "github.com/bobnet-go/bobnet/vipl/internal/memory"

// MemHandle identifies a registered region of one NIC (VIP_MEM_HANDLE). It consists of a slot in
// the NIC's table and the slot's generation, so a stale handle is detected. The zero MemHandle is
// invalid.
type MemHandle uint32

// String returns slot and generation.
func (h MemHandle) String() string { return memory.Handle(h).String() }

// Ptag is a protection tag (VIP_PROTECTION_HANDLE), a number. A VI can use a region only if both
// have the same tag. Tag 0 always exists and is the default for nil attributes.
type Ptag uint32

// MemAttributes are a region's attributes (VIP_MEM_ATTRIBUTES). Nil means the default tag and no
// access for peers.
type MemAttributes struct {
	Ptag            Ptag
	EnableRDMAWrite bool // peers may write to the region
	EnableRDMARead  bool // peers may read from the region
	// Once reserves the region's handle: while the NIC is open, no other region gets the same one. A peer
	// that keeps the handle after the region is gone can then never access another region. A NIC has
	// NICAttributes.MaxRegisterRegions times 4095 such handles. Other handles are reused after 4095
	// registrations or more.
	Once bool
}

// MemInfo is what QueryMem returns.
type MemInfo struct {
	MemAttributes
	Addr   uint64 // virtual address of the first byte
	Len    int
	Locked bool // the pages are locked into memory
}

// attributes returns the attributes that a, which may be nil, stands for.
func (a *MemAttributes) attributes() memory.Attributes {
	if a == nil {
		return memory.Attributes{}
	}
	return memory.Attributes{Ptag: memory.Tag(a.Ptag), EnableRDMAWrite: a.EnableRDMAWrite, EnableRDMARead: a.EnableRDMARead, Once: a.Once}
}

// VirtualAddress returns the address of buf's first byte. A peer needs it and the region's handle
// for RDMA.
func VirtualAddress(buf []byte) uint64 { return memory.Address(buf) }

// CreatePtag makes a new protection tag (VipCreatePtag). A NIC has at most
// NICAttributes.MaxPtags.
func (n *NIC) CreatePtag() (Ptag, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.m.Closed {
		return 0, ErrClosed
	}
	tag, err := n.m.Mem.CreateTag(maxPtags)
	return Ptag(tag), err
}

// DestroyPtag deletes a tag (VipDestroyPtag). It fails with ErrResource while a region or a VI has
// the tag.
func (n *NIC) DestroyPtag(p Ptag) error {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Mem.DestroyTag(memory.Tag(p))
}

// RegisterMem registers buf for transfers and returns its handle (VipRegisterMem). Nil attributes
// mean the default tag and no access for peers. The NIC keeps buf alive and in place (Go does not
// move heap memory) until DeregisterMem or Close. Regions may overlap. A NIC has at most
// NICAttributes.MaxRegisterRegions regions, of MaxRegisterBytes together.
//
// RegisterMem does not lock the pages of buf. No device accesses them by physical address, so a
// page that the kernel has swapped out costs only time. The kernel locks whole pages and does not
// count locks: unlocking one region would unlock other regions, and the program's own locks, on the
// same pages. A program that wants locked memory uses AllocMem, or calls mlock itself.
func (n *NIC) RegisterMem(buf []byte, attr *MemAttributes) (MemHandle, error) {
	return n.register(buf, attr, false, false)
}

func (n *NIC) register(buf []byte, attr *MemAttributes, mapped, locked bool) (MemHandle, error) {
	if len(buf) == 0 {
		return 0, opError("register memory", ErrArgument, "the buffer is empty")
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.m.Closed {
		return 0, ErrClosed
	}
	h, err := n.m.Mem.Register(buf, attr.attributes(), mapped, locked)
	return MemHandle(h), err
}

// DeregisterMem removes a region (VipDeregisterMem). It unmaps memory from AllocMem, which must not
// be accessed again. It fails with ErrInvalidState while posted descriptors refer to the region.
// The NIC refuses a peer's RDMA write or read that arrives later. An RDMA read that is being served
// ends the connection with ErrRDMA, unless its answer has arrived.
//
// After NIC.Close it fails with ErrClosed, except for memory from AllocMem. Close leaves the
// addresses of that memory reserved, and DeregisterMem releases them.
func (n *NIC) DeregisterMem(h MemHandle) error {
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.m.Closed {
		return n.m.Mem.GiveBack(memory.Handle(h))
	}
	if err := n.m.Mem.MayDeregister(memory.Handle(h)); err != nil {
		return err
	}
	n.letGo()
	n.m.Mem.Deregister(memory.Handle(h))
	return nil
}

// letGo removes all references to memory of the program from the batch of frames, before the memory
// belongs to the caller alone. A full link may have left such frames: retransmissions whose
// acknowledgement has arrived since, or answers to a peer's reads.
func (n *NIC) letGo() {
	n.m.Discard()
}

// AllocMem returns size bytes of new registered memory, rounded up to whole pages. The memory is
// outside the Go heap, and locked if the limit allows it (see QueryMem). A page takes memory when it
// is first used. Regions of 2 MiB and more
// use huge pages if the kernel has free ones, which makes long messages faster. The slice is valid
// until DeregisterMem. NIC.Close fills it with zeros.
func (n *NIC) AllocMem(size int, attr *MemAttributes) ([]byte, MemHandle, error) {
	if size <= 0 {
		return nil, 0, opError("allocate memory", ErrArgument, "%d bytes", size)
	}
	buf, locked, err := memory.Map(size)
	if err != nil {
		return nil, 0, opError("allocate memory", ErrResource, "mmap of %d bytes: %v (allocate less, or raise ulimit -v, vm.max_map_count or the memory limit of the cgroup)", size, err)
	}
	h, err := n.register(buf, attr, true, locked)
	if err != nil {
		memory.Unmap(buf)
		return nil, 0, err
	}
	if !locked {
		n.sayUnlocked(size)
	}
	return buf, h, nil
}

// sayUnlocked logs once that memory could not be locked, and the remedy.
func (n *NIC) sayUnlocked(size int) {
	n.eng.Lock()
	said := n.saidMlock
	n.saidMlock = true
	n.eng.Unlock()
	if !said {
		n.log.Debug("registered memory is not locked and may be paged out; this affects only performance",
			"bytes", size, "remedy", "raise the limit: ulimit -l unlimited, or LimitMEMLOCK=infinity in a systemd unit")
	}
}

// SetMemAttributes changes a region's attributes (VipSetMemAttributes). Nil attributes mean the
// default tag and no access for peers. It fails with ErrInvalidState while posted descriptors refer
// to the region, because they were checked against its tag. The new attributes apply to all later
// accesses of the peer. A read that is being served may end the connection, as after DeregisterMem.
func (n *NIC) SetMemAttributes(h MemHandle, attr *MemAttributes) error {
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.m.Closed {
		return ErrClosed
	}
	if err := n.m.Mem.SetAttributes(memory.Handle(h), attr.attributes()); err != nil {
		return err
	}
	n.letGo()
	return nil
}

// QueryMem returns a region's attributes, address and size (VipQueryMem).
func (n *NIC) QueryMem(h MemHandle) (MemInfo, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.m.Closed {
		return MemInfo{}, ErrClosed
	}
	m, err := n.m.Mem.Query(memory.Handle(h))
	return MemInfo{MemAttributes: MemAttributes{Ptag(m.Ptag), m.EnableRDMAWrite, m.EnableRDMARead, m.Once}, Addr: m.Addr, Len: m.Len, Locked: m.Locked}, err
}
