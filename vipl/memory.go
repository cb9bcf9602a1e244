package vipl

import "github.com/bobnet-go/bobnet/vipl/internal/memory"

// MemHandle names a registered region of one NIC (VIP_MEM_HANDLE): a slot in
// its table and the slot's generation, so that a stale handle is told from a
// new one. The zero MemHandle names nothing. String prints slot and generation.
type MemHandle = memory.Handle

// Ptag is a protection tag (VIP_PROTECTION_HANDLE), a number. A VI can use a region only
// if both carry the same tag. Tag 0 is the NIC's own: it always exists and is
// what nil attributes mean.
type Ptag uint32

// MemAttributes are a region's attributes (VIP_MEM_ATTRIBUTES). Nil means the
// default tag and no rights for peers.
type MemAttributes struct {
	Ptag            Ptag
	EnableRDMAWrite bool // peers may write to the region
	EnableRDMARead  bool // peers may read from the region
	// Once says that the region's handle names nothing else as long as the NIC is open:
	// who keeps it when the region is gone reaches no other. A NIC has NICAttributes.MaxRegisterRegions times
	// 4095 such handles. Other handles are used again after 4095 registrations or more.
	Once bool
}

// MemInfo is what QueryMem returns.
type MemInfo struct {
	MemAttributes
	Addr   uint64 // virtual address of the first byte
	Len    int
	Locked bool // the pages cannot be moved out of memory
}

// attributes returns what a stands for, which may be nil.
func (a *MemAttributes) attributes() memory.Attributes {
	if a == nil {
		return memory.Attributes{}
	}
	return memory.Attributes{Ptag: memory.Tag(a.Ptag), EnableRDMAWrite: a.EnableRDMAWrite, EnableRDMARead: a.EnableRDMARead, Once: a.Once}
}

// VirtualAddress returns the address of buf's first byte, which together with
// the region's handle is what a peer needs for RDMA.
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

// DestroyPtag drops a tag (VipDestroyPtag). It fails with ErrResource while a
// region or a VI carries it.
func (n *NIC) DestroyPtag(p Ptag) error {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Mem.DestroyTag(memory.Tag(p))
}

// RegisterMem makes buf known for transfers and returns its handle
// (VipRegisterMem). Nil attributes mean the default tag and no rights for
// peers. The NIC keeps buf alive and in place (Go does not move heap memory)
// until DeregisterMem or Close. Regions may overlap. A NIC has at most
// NICAttributes.MaxRegisterRegions, of MaxRegisterBytes together.
//
// RegisterMem does not lock the pages of buf. No device accesses them by physical address, so a
// page that the kernel has swapped out costs time and nothing else. The kernel's locks are of whole
// pages and are not counted: to unlock one region would unlock other regions and the program's own
// locks on the same pages. A program that wants locked memory uses AllocMem, or calls mlock itself.
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
	return n.m.Mem.Register(buf, attr.attributes(), mapped, locked)
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
	if n.m.Closed {
		return n.m.Mem.GiveBack(h)
	}
	if err := n.m.Mem.MayDeregister(h); err != nil {
		return err
	}
	n.letGo()
	n.m.Mem.Deregister(h)
	return nil
}

// letGo makes sure that no frame of the batch refers to memory that is about to
// be the caller's alone: a full link may have left some, copies of frames that
// have arrived since, or of answers to a peer's reads.
func (n *NIC) letGo() {
	n.m.Discard()
}

// AllocMem returns size bytes of new registered memory, rounded up to whole pages, outside
// the Go heap and locked if the limit allows it (see QueryMem). Regions of 2 MiB and more get
// huge pages if the kernel has free ones, and carry long messages faster then. The slice is
// valid until DeregisterMem; NIC.Close fills it with zeros.
func (n *NIC) AllocMem(size int, attr *MemAttributes) ([]byte, MemHandle, error) {
	if size <= 0 {
		return nil, 0, opError("allocate memory", ErrArgument, "%d bytes", size)
	}
	buf, locked, err := memory.Map(size)
	if err != nil {
		return nil, 0, opError("allocate memory", ErrResource, "mmap of %d bytes: %v", size, err)
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

// sayUnlocked tells once that memory could not be locked, and the remedy.
func (n *NIC) sayUnlocked(size int) {
	n.eng.Lock()
	said := n.saidMlock
	n.saidMlock = true
	n.eng.Unlock()
	if !said {
		n.log.Debug("registered memory is not locked and may be paged out; everything works all the same",
			"bytes", size, "remedy", "raise the limit: ulimit -l unlimited, or LimitMEMLOCK=infinity in a systemd unit")
	}
}

// SetMemAttributes changes a region's attributes (VipSetMemAttributes). Nil
// attributes mean the default tag and no rights for peers. It fails with
// ErrInvalidState while posted descriptors refer to the region, because they
// have been checked against its tag. What the peer does from now on is judged
// by the new attributes; as after DeregisterMem, a read that is being served
// may end the connection.
func (n *NIC) SetMemAttributes(h MemHandle, attr *MemAttributes) error {
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.m.Closed {
		return ErrClosed
	}
	if err := n.m.Mem.SetAttributes(h, attr.attributes()); err != nil {
		return err
	}
	n.letGo()
	return nil
}

// QueryMem returns a region's attributes and place (VipQueryMem).
func (n *NIC) QueryMem(h MemHandle) (MemInfo, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.m.Closed {
		return MemInfo{}, ErrClosed
	}
	m, err := n.m.Mem.Query(h)
	return MemInfo{MemAttributes: MemAttributes{Ptag(m.Ptag), m.EnableRDMAWrite, m.EnableRDMARead, m.Once}, Addr: m.Addr, Len: m.Len, Locked: m.Locked}, err
}
