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
	"github.com/bobnet-go/bobnet/transport/agent"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Marks of the sockets that the agent gives away: markMask of them is markBase, the rest a
// number of the grant's own.
const (
	markBase = 0xb0000000
	markMask = 0xff000000
)

// guard has the kernel drop what programs send by the agent's sockets and may not: in
// nftables, where frames leave an interface (netdev, hook egress; Linux 5.16), for all
// interfaces of the network namespace. A frame whose mark is an agent's passes if an element
// of a set says that this mark may send from this interface, under this MAC, with this
// EtherType, from this block of ports. Its mark is cleared then, because it may pass other
// interfaces, such as the port of a bridge. Only privileged processes can set marks.
//
// The table outlives the agent, because the sockets do.
type guard struct {
	mu          sync.Mutex
	table       *nftables.Table
	plain, long *nftables.Set
	hooked      map[int]bool // interfaces, by index
	elements    map[block]element
	next        uint32 // mark
}

// block is a block of ports on an interface.
type block struct {
	index int
	typ   ethernet.EtherType
	n     int
}

// element is who may send from a block.
type element struct {
	mark uint32
	mac  ethertype.MAC
	long bool
}

// setSize is how many elements a set may have. The kernel looks faster into one that has a
// bound.
const setSize = 8192

// tableName is the table's name in nftables.
const tableName = "bobnet-agent"

// Sizes of keys: the mark, the interface, the protocol that the kernel goes by, and sixteen
// octets of the frame from its source on; of long frames the port that lies behind the shim
// besides.
const (
	wordSize  = 4
	frameAt   = ethertype.OffsetSrc
	frameSize = 16
	plainSize = 3*wordSize + frameSize
	longSize  = plainSize + wordSize
)

// newGuard makes the table, or takes over the one that an agent before has left, and guards
// all interfaces. The error says what the kernel lacks.
func newGuard(seed uint32) (*guard, error) {
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyNetdev}
	g := &guard{table: table, hooked: map[int]bool{}, elements: map[block]element{}, next: seed,
		plain: &nftables.Set{Table: table, Name: "plain", KeyType: nftables.SetDatatype{Name: "plain", Bytes: plainSize}, Size: setSize},
		long:  &nftables.Set{Table: table, Name: "long", KeyType: nftables.SetDatatype{Name: "long", Bytes: longSize}, Size: setSize},
	}
	var conn nftables.Conn
	conn.AddTable(table)
	if err := errors.Join(conn.AddSet(g.plain, nil), conn.AddSet(g.long, nil), conn.Flush()); err != nil {
		return nil, fmt.Errorf("node agent: nftables: %w: judging what programs send takes CAP_NET_ADMIN and nftables for netdev (Linux 5.16, CONFIG_NF_TABLES_NETDEV, CONFIG_NETFILTER_EGRESS)", err)
	}
	if err := g.load(); err != nil {
		return nil, err
	}
	return g, g.hook()
}

// load reads the elements that are there.
func (g *guard) load() error {
	var conn nftables.Conn
	clear(g.elements)
	for _, set := range []*nftables.Set{g.long, g.plain} {
		list, err := conn.GetSetElements(set)
		if err != nil {
			return fmt.Errorf("node agent: nftables: set %s: %w", set.Name, err)
		}
		for _, e := range list {
			if b, who, ok := parseKey(e.Key); ok {
				who.long = who.long || g.elements[b].long
				g.elements[b] = who
			}
		}
	}
	return nil
}

// hook guards the interfaces that are not guarded yet.
func (g *guard) hook() error {
	all, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("node agent: interfaces: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var failed []error
	now := map[int]bool{}
	for _, i := range all {
		if !g.hooked[i.Index] {
			if err := g.hookOne(i.Index, i.Name); err != nil && gone(i.Index) == nil {
				failed = append(failed, fmt.Errorf("node agent: nftables: guard of %s: %w: it takes Linux 5.16 with CONFIG_NETFILTER_EGRESS", i.Name, err))
				continue
			}
		}
		now[i.Index] = true
	}
	g.hooked = now
	return errors.Join(failed...)
}

// gone returns an error if there is no interface with an index any more.
func gone(index int) error {
	_, err := net.InterfaceByIndex(index)
	return err
}

// hookOne guards an interface. What an agent before has put there is replaced in one step.
func (g *guard) hookOne(index int, name string) error {
	var conn nftables.Conn
	policy := nftables.ChainPolicyAccept
	chain := conn.AddChain(&nftables.Chain{Table: g.table, Name: fmt.Sprintf("if%d", index), Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookEgress, Priority: nftables.ChainPriorityFirst, Device: name, Policy: &policy})
	conn.FlushChain(chain)
	for _, rule := range g.rules() {
		conn.AddRule(&nftables.Rule{Table: g.table, Chain: chain, Exprs: rule})
	}
	return conn.Flush()
}

// Registers of four octets.
const firstRegister = unix.NFT_REG32_00

// rules returns those of a chain: what has no mark of ours passes, then what a set has, and
// nothing else.
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
		append(append(loadKey(ethertype.Version), &expr.Lookup{SourceRegister: firstRegister, SetName: g.plain.Name, SetID: g.plain.ID}), pass()...),
		append(append(loadKey(ethertype.ShimVersion), &expr.Lookup{SourceRegister: firstRegister, SetName: g.long.Name, SetID: g.long.ID}), pass()...),
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

// loadKey loads the key of a frame with a version into registers from the first on.
func loadKey(version byte) []expr.Any {
	frame := uint32(firstRegister + 3)
	load := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: firstRegister},
		&expr.Meta{Key: expr.MetaKeyOIF, Register: firstRegister + 1},
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: firstRegister + 2},
		&expr.Payload{DestRegister: frame, Base: expr.PayloadBaseLLHeader, Offset: frameAt, Len: frameSize},
		&expr.Bitwise{SourceRegister: frame, DestRegister: frame, Len: frameSize, Mask: frameMask(version), Xor: make([]byte, frameSize)},
	}
	if version == ethertype.ShimVersion {
		port := frame + frameSize/wordSize
		load = append(load,
			&expr.Payload{DestRegister: port, Base: expr.PayloadBaseLLHeader, Offset: ethertype.OffsetSrcPort + ethertype.ShimSize, Len: 2},
			&expr.Bitwise{SourceRegister: port, DestRegister: port, Len: 2, Mask: blockMask(), Xor: make([]byte, 2)})
	}
	return load
}

// frameMask says which bits of the sixteen octets count.
func frameMask(version byte) []byte {
	mask := make([]byte, frameSize)
	for i := range ethertype.OffsetVersion + 1 - frameAt {
		mask[i] = 0xff
	}
	if version == ethertype.Version {
		copy(mask[ethertype.OffsetSrcPort-frameAt:], blockMask())
	}
	return mask
}

// blockMask is the bits of a port that say which block it is in.
func blockMask() []byte { return binary.BigEndian.AppendUint16(nil, ^uint16(blockSize-1)) }

// key returns the key of the frames that may be sent, plain or long ones.
func key(b block, e element, long bool) []byte {
	k := make([]byte, plainSize, longSize)
	binary.NativeEndian.PutUint32(k, e.mark)
	binary.NativeEndian.PutUint32(k[wordSize:], uint32(b.index))
	protocol, version := uint16(b.typ), byte(ethertype.Version)
	if long {
		protocol, version = unix.ETH_P_IP, ethertype.ShimVersion // what the kernel is told that they are
	}
	binary.BigEndian.PutUint16(k[2*wordSize:], protocol)
	frame := k[3*wordSize:]
	copy(frame, e.mac[:])
	binary.BigEndian.PutUint16(frame[ethertype.OffsetType-frameAt:], uint16(b.typ))
	frame[ethertype.OffsetVersion-frameAt] = version
	port := uint16(b.n * blockSize)
	if !long {
		binary.BigEndian.PutUint16(frame[ethertype.OffsetSrcPort-frameAt:], port)
		return k
	}
	return append(binary.BigEndian.AppendUint16(k, port), 0, 0)
}

// parseKey is the inverse of key.
func parseKey(k []byte) (b block, e element, ok bool) {
	if len(k) != plainSize && len(k) != longSize {
		return b, e, false
	}
	e.mark, b.index = binary.NativeEndian.Uint32(k), int(binary.NativeEndian.Uint32(k[wordSize:]))
	frame := k[3*wordSize:]
	e.mac, e.long = ethertype.MAC(frame), len(k) == longSize
	b.typ = ethernet.EtherType(binary.BigEndian.Uint16(frame[ethertype.OffsetType-frameAt:]))
	port := frame[ethertype.OffsetSrcPort-frameAt:]
	if e.long {
		port = k[plainSize:]
	}
	b.n = int(binary.BigEndian.Uint16(port)) / blockSize
	return b, e, true
}

// mark returns one that no socket has which may send.
func (g *guard) mark() uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	used := map[uint32]bool{}
	for e := range maps.Values(g.elements) {
		used[e.mark] = true
	}
	for {
		g.next++
		if m := markBase | g.next&^uint32(markMask); !used[m] {
			return m
		}
	}
}

// other returns the first of blocks that sockets with another mark may send from.
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

// allow has e alone send from blocks, and nobody else any more.
func (g *guard) allow(blocks []block, e element) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.replace(blocks, e)
	if errors.Is(err, unix.ENOENT) { // somebody else has changed the table
		if err = g.load(); err == nil {
			err = g.replace(blocks, e)
		}
	}
	if err != nil {
		return fmt.Errorf("node agent: nftables: %w: if the table is gone, start the agent again", err)
	}
	return nil
}

// replace is allow, once.
func (g *guard) replace(blocks []block, e element) error {
	var conn nftables.Conn
	for _, b := range blocks {
		was, has := g.elements[b]
		if has && was == e {
			continue
		}
		if has {
			err := conn.SetDeleteElements(g.plain, []nftables.SetElement{{Key: key(b, was, false)}})
			if was.long {
				err = errors.Join(err, conn.SetDeleteElements(g.long, []nftables.SetElement{{Key: key(b, was, true)}}))
			}
			if err != nil {
				return err
			}
		}
		err := conn.SetAddElements(g.plain, []nftables.SetElement{{Key: key(b, e, false)}})
		if e.long {
			err = errors.Join(err, conn.SetAddElements(g.long, []nftables.SetElement{{Key: key(b, e, true)}}))
		}
		if err != nil {
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

// ours reports whether a mark is one of an agent's.
func ours(mark uint32) bool { return mark&markMask == markBase }

// blocksOf returns the blocks of a grant.
func blocksOf(g *agent.Grant) (blocks []block) {
	first, last := g.Blocks()
	for n := first; n <= last; n++ {
		blocks = append(blocks, block{g.Interface.Index, g.EtherType, n})
	}
	return slices.Clip(blocks)
}
