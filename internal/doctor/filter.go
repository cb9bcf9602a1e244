package doctor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Drop is a rule, or the policy of a chain, of nftables that drops Bobnet's frames.
type Drop struct {
	Family string // netdev or bridge
	Table  string
	Chain  string
	Hook   string // where frames meet the chain
	Handle uint64 // of the rule; 0: the chain's policy
	Maybe  bool   // it drops some frames: what else it asks for is not known here
	Others bool   // it sees frames that this host bridges for others, and not the interface's own
}

// String names the rule.
func (d Drop) String() string {
	what := "policy"
	if d.Handle != 0 {
		what = fmt.Sprintf("rule with handle %d", d.Handle)
	}
	return fmt.Sprintf("%s of chain %q in table %s %q (hook %s)", what, d.Chain, d.Family, d.Table, d.Hook)
}

// fix returns the commands that show the rule, and take it away.
func (d Drop) fix() string {
	show := fmt.Sprintf("sudo nft -a list chain %s %s %s", d.Family, d.Table, d.Chain)
	if d.Handle == 0 {
		return show + "\n" + fmt.Sprintf("sudo nft 'chain %s %s %s { policy accept; }'", d.Family, d.Table, d.Chain)
	}
	return show + "\n" + fmt.Sprintf("sudo nft delete rule %s %s %s handle %d", d.Family, d.Table, d.Chain, d.Handle)
}

// chain is a chain of nftables as judge sees it.
type chain struct {
	family, table, name string
	hook                string   // "" for a chain that others jump to
	devices             []string // that it is hooked to; nil: any
	drops               bool     // its policy
	rules               []*nftables.Rule
}

// sample is a frame as rules see it.
type sample struct {
	iface string
	typ   ethernet.EtherType
}

// findDrops returns what drops a sample among chains. It is pure.
func findDrops(chains []chain, s sample) (all []Drop) {
	for _, c := range chains {
		if c.hook != "" && (c.devices == nil || slices.Contains(c.devices, s.iface)) {
			w := walk{chains: chains, sample: s, base: c, left: maxWalks}
			if w.chain(c, false, 0) == passOn && c.drops {
				w.found(c, 0, w.unsure)
			}
			all = append(all, w.drops...)
		}
	}
	return all
}

// end is how a walk through a chain ends.
type end uint8

const (
	passOn end = iota // at the end of the chain
	accepted
	dropped
)

// maxJumps bounds jumps within jumps, as the kernel does, and maxWalks how many chains are gone
// through in all.
const (
	maxJumps = 16
	maxWalks = 10000
)

// walk is what a sample meets from a base chain on.
type walk struct {
	chains []chain
	sample sample
	base   chain
	drops  []Drop
	unsure bool // a rule that may have accepted the sample is passed
	left   int  // chains that may still be gone through
}

func (w *walk) found(c chain, handle uint64, maybe bool) {
	again := func(d Drop) bool { return d.Chain == c.name && d.Handle == handle }
	if slices.ContainsFunc(w.drops, again) {
		return
	}
	w.drops = append(w.drops, Drop{Family: c.family, Table: c.table, Chain: c.name, Hook: w.base.hook, Handle: handle, Maybe: maybe})
}

// chain goes through the rules of a chain. maybe is whether it is not sure that the sample gets there.
func (w *walk) chain(c chain, maybe bool, depth int) end {
	for _, rule := range c.rules {
		matches, sure, verdict := w.sample.meets(rule.Exprs)
		if !matches || verdict == nil {
			continue
		}
		unsure := maybe || !sure
		switch verdict.Kind {
		case expr.VerdictDrop:
			w.found(c, rule.Handle, unsure || w.unsure)
			if !unsure {
				return dropped
			}
		case expr.VerdictAccept:
			if !unsure {
				return accepted
			}
			w.unsure = true
		case expr.VerdictReturn:
			if !unsure {
				return passOn
			}
			w.unsure = true
		case expr.VerdictJump, expr.VerdictGoto:
			i := slices.IndexFunc(w.chains, func(o chain) bool {
				return o.family == c.family && o.table == c.table && o.name == verdict.Chain
			})
			if w.left--; i < 0 || depth == maxJumps || w.left < 0 {
				continue
			}
			if got := w.chain(w.chains[i], unsure, depth+1); got != passOn && !unsure {
				return got
			}
			if verdict.Kind == expr.VerdictGoto && !unsure {
				return passOn
			}
		}
	}
	return passOn
}

// meets reports whether a rule applies to the sample, whether that is sure, and its verdict; nil
// if it has none.
func (s sample) meets(rule []expr.Any) (matches, sure bool, verdict *expr.Verdict) {
	registers := map[uint32][]byte{} // what is known of them
	sure = true
	for _, e := range rule {
		switch e := e.(type) {
		case *expr.Meta:
			if !e.SourceRegister {
				registers[e.Register] = s.meta(e.Key)
			}
		case *expr.Payload:
			registers[e.DestRegister] = s.payload(e)
		case *expr.Immediate:
			registers[e.Register] = e.Data
		case *expr.Bitwise:
			registers[e.DestRegister] = mask(registers[e.SourceRegister], e)
		case *expr.Cmp:
			value := registers[e.Register]
			if len(value) < len(e.Data) {
				sure = false
			} else if !compares(e.Op, bytes.Compare(value[:len(e.Data)], e.Data)) {
				return false, sure, nil
			}
		case *expr.Counter, *expr.Log:
		case *expr.Reject:
			return true, sure, &expr.Verdict{Kind: expr.VerdictDrop}
		case *expr.Verdict:
			return true, sure, e
		default: // a set, a limit, what is to come
			sure = false
		}
	}
	return true, sure, nil
}

// meta returns what a rule loads of the sample's circumstances; nil if that is not known.
func (s sample) meta(key expr.MetaKey) []byte {
	switch key {
	case expr.MetaKeyPROTOCOL:
		return binary.BigEndian.AppendUint16(nil, uint16(s.typ))
	case expr.MetaKeyMARK:
		return make([]byte, 4)
	case expr.MetaKeyIIFTYPE, expr.MetaKeyOIFTYPE:
		return binary.NativeEndian.AppendUint16(nil, unix.ARPHRD_ETHER)
	}
	return nil
}

// payload returns what a rule loads of the sample's bytes; nil if that is not known.
func (s sample) payload(e *expr.Payload) []byte {
	known := append(binary.BigEndian.AppendUint16(nil, uint16(s.typ)), ethertype.Version)
	from := int(e.Offset)
	switch e.Base {
	case expr.PayloadBaseLLHeader:
		from -= framing.OffsetType
	case expr.PayloadBaseNetworkHeader:
		from += framing.OffsetVersion - framing.OffsetType
	default:
		return nil
	}
	if from < 0 || from+int(e.Len) > len(known) {
		return nil
	}
	return known[from : from+int(e.Len)]
}

// mask returns what a rule makes of a value; nil if that is not known.
func mask(value []byte, e *expr.Bitwise) []byte {
	if len(value) < int(e.Len) || len(e.Mask) < int(e.Len) || len(e.Xor) < int(e.Len) {
		return nil
	}
	out := make([]byte, e.Len)
	for i := range out {
		out[i] = value[i]&e.Mask[i] ^ e.Xor[i]
	}
	return out
}

// compares reports whether an operator takes what bytes.Compare has returned.
func compares(op expr.CmpOp, c int) bool {
	switch op {
	case expr.CmpOpEq:
		return c == 0
	case expr.CmpOpNeq:
		return c != 0
	case expr.CmpOpLt:
		return c < 0
	case expr.CmpOpLte:
		return c <= 0
	case expr.CmpOpGt:
		return c > 0
	}
	return c >= 0
}
