package nodeagent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Marks of the sockets that the agent grants. The bits of markMask are markBase. The other bits are 0
// for sockets that receive, and a number of the grant for the socket that sends.
const (
	markBase    = 0xb0000000
	markMask    = 0xff000000
	receiveMark = markBase
)

// guard makes the kernel drop frames that programs send through the agent's sockets without
// permission. It uses nftables on egress (netdev, hook egress; Linux 5.16) of all interfaces of
// the network namespace. A frame with a mark of an agent passes if an element of a set allows its
// combination of mark, interface, MAC, EtherType and block of ports. The mark is then cleared,
// because the frame may pass other interfaces, such as the port of a bridge. Only privileged
// processes can set marks.
//
// The table outlives the agent, because the sockets do.
type guard struct {
	mu       sync.Mutex
	table    *nftables.Table
	senders  *nftables.Set
	hooked   map[int]bool // interfaces, by index
	lost     bool         // the table was missing when a chain was to be created
	elements map[block]element
	next     uint32 // mark
}

// block is a block of ports on an interface.
type block struct {
	index int
	typ   ethernet.EtherType
	n     int
}

// element identifies the socket that may send from a block.
type element struct {
	mark uint32
	mac  ethertype.MAC
}

// setSize is the maximum number of elements of the set. Lookups are faster in a set with a bound.
const setSize = 8192

// setName is the name of the set. A release changes it if sockets of earlier releases must no longer
// send: those of a table with the sets plain and long can send frames that were not checked.
const setName = "senders"

// tableName is the table's name in nftables.
const tableName = "bobnet-agent"

// Layout of keys: the mark, the interface, the kernel's protocol field, and sixteen bytes of the
// frame from its source address on.
const (
	wordSize  = 4
	frameAt   = framing.OffsetSrc
	frameSize = 16
	keySize   = 3*wordSize + frameSize
)

// newGuard creates the table, or takes over that of an earlier agent, and guards all interfaces. The
// error tells what the kernel lacks.
func newGuard(seed uint32) (*guard, error) {
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyNetdev}
	g := &guard{table: table, hooked: map[int]bool{}, elements: map[block]element{}, next: seed,
		senders: &nftables.Set{Table: table, Name: setName, KeyType: nftables.SetDatatype{Name: setName, Bytes: keySize}, Size: setSize},
	}
	var conn nftables.Conn
	conn.AddTable(table)
	if err := errors.Join(conn.AddSet(g.senders, nil), conn.Flush()); err != nil {
		return nil, fmt.Errorf("node agent: create nftables table: %w (checking what programs send needs CAP_NET_ADMIN, and Linux 5.16 with CONFIG_NF_TABLES_NETDEV and CONFIG_NETFILTER_EGRESS)", err)
	}
	if err := g.load(); err != nil {
		return nil, err
	}
	return g, g.hook()
}

// load reads the existing elements.
func (g *guard) load() error {
	var conn nftables.Conn
	list, err := conn.GetSetElements(g.senders)
	if err != nil {
		return fmt.Errorf("node agent: read nftables set %s: %w", g.senders.Name, err)
	}
	clear(g.elements)
	for _, e := range list {
		if b, who, ok := parseKey(e.Key); ok {
			g.elements[b] = who
		}
	}
	return nil
}

// hook guards the interfaces that are not guarded yet.
func (g *guard) hook() error {
	all, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("node agent: list interfaces: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var failed []error
	now := map[int]bool{}
	for _, i := range all {
		if !g.hooked[i.Index] {
			if err := g.hookOne(i.Index, i.Name); err != nil && gone(i.Index) == nil {
				g.lost = g.lost || errors.Is(err, unix.ENOENT)
				failed = append(failed, fmt.Errorf("node agent: guard interface %s with nftables: %w (needs Linux 5.16 with CONFIG_NETFILTER_EGRESS)", i.Name, err))
				continue
			}
		}
		now[i.Index] = true
	}
	g.hooked = now
	return errors.Join(failed...)
}

// restore creates the table and its elements again if they were removed: programs that load their own
// rules often flush all others. It reports whether it did; then hook must create the chains.
func (g *guard) restore() (restored bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var conn nftables.Conn
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyNetdev)
	if err != nil {
		return false, fmt.Errorf("node agent: list nftables chains: %w", err)
	}
	there := map[string]bool{}
	for _, c := range chains {
		if c.Table.Name == tableName {
			there[c.Name] = true
		}
	}
	missing := maps.Clone(g.hooked)
	maps.DeleteFunc(missing, func(index int, _ bool) bool { return there[chainName(index)] || gone(index) != nil })
	if len(missing) == 0 && !g.lost {
		return false, nil
	}
	var elements []nftables.SetElement
	for b, e := range g.elements {
		elements = append(elements, nftables.SetElement{Key: key(b, e)})
	}
	conn.AddTable(g.table)
	err = conn.AddSet(g.senders, nil)
	for part := range slices.Chunk(elements, maxElements) {
		err = errors.Join(err, conn.SetAddElements(g.senders, part))
	}
	if err = errors.Join(err, conn.Flush()); err != nil {
		return false, fmt.Errorf("node agent: restore nftables table: %w", err)
	}
	clear(g.hooked)
	g.lost = false
	return true, nil
}

// maxElements is the maximum number of elements in one netlink attribute, whose length has 16 bits. An
// element has 40 bytes.
const maxElements = 1024

// chainName is the name of the chain of an interface.
func chainName(index int) string { return fmt.Sprintf("if%d", index) }

// gone returns an error if no interface has the index any more.
func gone(index int) error {
	_, err := net.InterfaceByIndex(index)
	return err
}

// hookOne guards an interface. It replaces the chain of an earlier agent atomically.
func (g *guard) hookOne(index int, name string) error {
	var conn nftables.Conn
	policy := nftables.ChainPolicyAccept
	chain := conn.AddChain(&nftables.Chain{Table: g.table, Name: chainName(index), Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookEgress, Priority: nftables.ChainPriorityFirst, Device: name, Policy: &policy})
	conn.FlushChain(chain)
	for _, rule := range g.rules() {
		conn.AddRule(&nftables.Rule{Table: g.table, Chain: chain, Exprs: rule})
	}
	return conn.Flush()
}

// Registers of four bytes.
const firstRegister = unix.NFT_REG32_00

// rules returns the rules of a chain: accept frames without a mark of ours, accept frames in the set,
// and drop all others.
func (g *guard) rules() [][]expr.Any {
	accept := &expr.Verdict{Kind: expr.VerdictAccept}
	word := func(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
	return [][]expr.Any{
		{
			&expr.Meta{Key: expr.MetaKeyMARK, Register: firstRegister},
			&expr.Bitwise{SourceRegister: firstRegister, DestRegister: firstRegister, Len: wordSize, Mask: word(markMask), Xor: word(0)},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: firstRegister, Data: word(markBase)},
			accept,
		},
		append(append(loadKey(), &expr.Lookup{SourceRegister: firstRegister, SetName: g.senders.Name, SetID: g.senders.ID}), pass()...),
		{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}},
	}
}

// pass clears the mark and accepts.
func pass() []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: firstRegister, Data: make([]byte, wordSize)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: firstRegister},
		&expr.Verdict{Kind: expr.VerdictAccept},
	}
}

// loadKey loads the key of a frame into registers from the first on.
func loadKey() []expr.Any {
	frame := uint32(firstRegister + 3)
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: firstRegister},
		&expr.Meta{Key: expr.MetaKeyOIF, Register: firstRegister + 1},
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: firstRegister + 2},
		&expr.Payload{DestRegister: frame, Base: expr.PayloadBaseLLHeader, Offset: frameAt, Len: frameSize},
		&expr.Bitwise{SourceRegister: frame, DestRegister: frame, Len: frameSize, Mask: frameMask(), Xor: make([]byte, frameSize)},
	}
}

// frameMask returns the significant bits of the sixteen bytes.
func frameMask() []byte {
	mask := make([]byte, frameSize)
	for i := range framing.OffsetVersion + 1 - frameAt {
		mask[i] = 0xff
	}
	copy(mask[framing.OffsetSrcPort-frameAt:], blockMask())
	return mask
}

// blockMask returns the bits of a port that identify its block.
func blockMask() []byte { return binary.BigEndian.AppendUint16(nil, ^uint16(blockSize-1)) }

// key returns the key of the permitted frames.
func key(b block, e element) []byte {
	k := make([]byte, keySize)
	binary.NativeEndian.PutUint32(k, e.mark)
	binary.NativeEndian.PutUint32(k[wordSize:], uint32(b.index))
	binary.BigEndian.PutUint16(k[2*wordSize:], uint16(b.typ))
	frame := k[3*wordSize:]
	copy(frame, e.mac[:])
	binary.BigEndian.PutUint16(frame[framing.OffsetType-frameAt:], uint16(b.typ))
	frame[framing.OffsetVersion-frameAt] = ethertype.Version
	binary.BigEndian.PutUint16(frame[framing.OffsetSrcPort-frameAt:], uint16(b.n*blockSize))
	return k
}

// parseKey is the inverse of key.
func parseKey(k []byte) (b block, e element, ok bool) {
	if len(k) != keySize {
		return b, e, false
	}
	e.mark, b.index = binary.NativeEndian.Uint32(k), int(binary.NativeEndian.Uint32(k[wordSize:]))
	frame := k[3*wordSize:]
	e.mac = ethertype.MAC(frame)
	b.typ = ethernet.EtherType(binary.BigEndian.Uint16(frame[framing.OffsetType-frameAt:]))
	b.n = int(binary.BigEndian.Uint16(frame[framing.OffsetSrcPort-frameAt:])) / blockSize
	return b, e, true
}

// mark returns a mark that no sending socket has.
func (g *guard) mark() uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	used := map[uint32]bool{}
	for e := range maps.Values(g.elements) {
		used[e.mark] = true
	}
	for {
		g.next++
		if m := markBase | g.next&^uint32(markMask); m != receiveMark && !used[m] {
			return m
		}
	}
}

// other returns the first of blocks from which sockets with another mark may send.
func (g *guard) other(blocks []block, mark uint32) (b block, has bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range blocks {
		if e, has := g.elements[b]; has && e.mark != mark {
			return b, true
		}
	}
	return b, false
}

// allow permits e, and no other socket, to send from blocks.
func (g *guard) allow(blocks []block, e element) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.replace(blocks, e)
	if errors.Is(err, unix.ENOENT) { // another program has changed the table
		if err = g.load(); err == nil {
			err = g.replace(blocks, e)
		}
	}
	if err != nil {
		return fmt.Errorf("node agent: change nftables set: %w (if the table was removed, the agent restores it within a second)", err)
	}
	return nil
}

// replace is one attempt of allow.
func (g *guard) replace(blocks []block, e element) error {
	var conn nftables.Conn
	for _, b := range blocks {
		was, has := g.elements[b]
		if has && was == e {
			continue
		}
		var err error
		if has {
			err = conn.SetDeleteElements(g.senders, []nftables.SetElement{{Key: key(b, was)}})
		}
		if err = errors.Join(err, conn.SetAddElements(g.senders, []nftables.SetElement{{Key: key(b, e)}})); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	for _, b := range blocks {
		g.elements[b] = e
	}
	return nil
}

// ours reports whether a mark belongs to an agent.
func ours(mark uint32) bool { return mark&markMask == markBase }

// blocksOf returns the blocks of a grant.
func blocksOf(g *agent.Grant) (blocks []block) {
	first, last := g.Blocks()
	for n := first; n <= last; n++ {
		blocks = append(blocks, block{g.Interface.Index, g.EtherType, n})
	}
	return slices.Clip(blocks)
}
