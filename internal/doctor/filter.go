package doctor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/ethernet"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Drop is a rule, or the policy of a chain, of nftables that drops Bobnet's frames.
type Drop struct {
	Family string // netdev or bridge; of long frames ip6 or inet
	Table  string
	Chain  string
	Hook   string // hook of the base chain
	Handle uint64 // of the rule; 0: the chain's policy
	Maybe  bool   // it drops some frames: it has further conditions, which this package cannot evaluate
	Others bool   // it applies to frames that this host bridges for others, not to the interface's own
}

// String names the rule.
func (d Drop) String() string {
	what := "policy"
	if d.Handle != 0 {
		what = fmt.Sprintf("rule with handle %d", d.Handle)
	}
	return fmt.Sprintf("%s of chain %q in table %s %q (hook %s)", what, d.Chain, d.Family, d.Table, d.Hook)
}

// fix returns the commands that show and remove the rule.
func (d Drop) fix() string {
	show := fmt.Sprintf("sudo nft -a list chain %s %s %s", d.Family, d.Table, d.Chain)
	if d.Handle == 0 {
		return show + "\n" + fmt.Sprintf("sudo nft 'chain %s %s %s { policy accept; }'", d.Family, d.Table, d.Chain)
	}
	return show + "\n" + fmt.Sprintf("sudo nft delete rule %s %s %s handle %d", d.Family, d.Table, d.Chain, d.Handle)
}

// chain is a chain of nftables, reduced to what the judge needs.
type chain struct {
	family, table, name string
	hook                string   // "" for a chain that others jump to
	devices             []string // interfaces that it is hooked to; nil: any
	drops               bool     // its policy
	rules               []*nftables.Rule
}

// sample contains the properties of a frame that rules can test.
type sample struct {
	iface string
	typ   ethernet.EtherType
	long  uint32 // of a long frame, the beginning of its addresses
}

// findDrops returns the rules and policies that drop a sample. It is pure.
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

// maxJumps limits nested jumps, as in the kernel. maxWalks limits the total number of chains that are
// walked.
const (
	maxJumps = 16
	maxWalks = 10000
)

// walk follows a sample from a base chain.
type walk struct {
	chains []chain
	sample sample
	base   chain
	drops  []Drop
	unsure bool // an earlier rule may have accepted the sample
	left   int  // number of chains that may still be walked
}

func (w *walk) found(c chain, handle uint64, maybe bool) {
	again := func(d Drop) bool { return d.Chain == c.name && d.Handle == handle }
	if slices.ContainsFunc(w.drops, again) {
		return
	}
	w.drops = append(w.drops, Drop{Family: c.family, Table: c.table, Chain: c.name, Hook: w.base.hook, Handle: handle, Maybe: maybe})
}

// chain walks the rules of a chain. maybe reports that the sample possibly does not reach the chain.
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

// meets reports whether a rule matches the sample, whether that is certain, and the rule's verdict,
// which can be nil.
func (s sample) meets(rule []expr.Any) (matches, sure bool, verdict *expr.Verdict) {
	registers := map[uint32][]byte{} // known contents
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
		default: // a set, a limit, or an unknown expression
			sure = false
		}
	}
	return true, sure, nil
}

// meta returns the metadata of the sample that a rule loads, or nil if it is unknown.
func (s sample) meta(key expr.MetaKey) []byte {
	switch key {
	case expr.MetaKeyPROTOCOL:
		return binary.BigEndian.AppendUint16(nil, uint16(s.typ))
	case expr.MetaKeyMARK:
		return make([]byte, 4)
	case expr.MetaKeyNFPROTO:
		if s.long != 0 {
			return []byte{unix.NFPROTO_IPV6}
		}
	case expr.MetaKeyL4PROTO:
		if s.long != 0 {
			return []byte{unix.IPPROTO_TCP}
		}
	case expr.MetaKeyIIFTYPE, expr.MetaKeyOIFTYPE:
		return binary.NativeEndian.AppendUint16(nil, unix.ARPHRD_ETHER)
	}
	return nil
}

// payload returns the bytes of the sample that a rule loads, or nil if they are unknown.
func (s sample) payload(e *expr.Payload) []byte {
	if s.long != 0 && e.Base == expr.PayloadBaseNetworkHeader {
		return s.longHeader(int(e.Offset), int(e.Len))
	}
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

// longHeader returns n bytes at offset from of the IPv6 header of a long frame, or nil if they are not all
// known: length and MACs are not.
func (s sample) longHeader(from, n int) []byte {
	var begin [ethertype.HeaderSize]byte
	binary.BigEndian.PutUint16(begin[framing.OffsetType:], uint16(s.long))
	frame := make([]byte, ethertype.EthernetSize+framing.LongHeader)
	framing.PutLong(frame, begin[:], ethertype.HeaderSize)
	header := frame[ethertype.EthernetSize:]
	for _, known := range [][2]int{{0, 4}, {6, 18}, {24, 34}} { // up to the length, and to either MAC
		if known[0] <= from && from+n <= known[1] {
			return header[from:][:n]
		}
	}
	return nil
}

// mask returns the result of a bitwise operation, or nil if it is unknown.
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

// compares reports whether an operator accepts a result of bytes.Compare.
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

// hooks contains the names of the hooks of base chains.
var hooks = map[nftables.TableFamily][]string{
	nftables.TableFamilyNetdev: {"ingress", "egress"},
	nftables.TableFamilyBridge: {"prerouting", "input", "forward", "output", "postrouting"},
	nftables.TableFamilyIPv6:   {"prerouting", "input", "forward", "output", "postrouting"},
	nftables.TableFamilyINet:   {"prerouting", "input", "forward", "output", "postrouting", "ingress"},
}

// families has the names of the nftables families of which chains are read. Those of the first two process frames of any
// EtherType.
var families = map[nftables.TableFamily]string{nftables.TableFamilyNetdev: "netdev", nftables.TableFamilyBridge: "bridge",
	nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyINet: "inet"}

// Drops returns the nftables rules that drop frames of an EtherType on an interface in this network
// namespace. Reading the rules needs CAP_NET_ADMIN: without it the error wraps EPERM.
func Drops(name string, typ ethernet.EtherType) ([]Drop, error) {
	var chains []chain
	for _, family := range []nftables.TableFamily{nftables.TableFamilyNetdev, nftables.TableFamilyBridge} {
		more, err := listChains(family)
		if err != nil {
			return nil, fmt.Errorf("doctor: read nftables rules: %w", err)
		}
		chains = append(chains, more...)
	}
	drops := findDrops(chains, sample{iface: name, typ: typ})
	for i := range drops {
		drops[i].Others = drops[i].Family == families[nftables.TableFamilyBridge] && !bridged(name)
	}
	return drops, nil
}

// bridged reports whether an interface is a bridge, or a port of one.
func bridged(name string) bool {
	driver, _ := iface.Driver(name)
	list, _ := iface.List()
	return driver == "bridge" || slices.ContainsFunc(list, func(i iface.Interface) bool { return i.Name == name && i.Bridge != "" })
}

// listChains returns the chains of a family, with their rules.
func listChains(family nftables.TableFamily) (all []chain, err error) {
	places, err := chainDevices(family)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil, nil // this kernel has no such family
	}
	if err != nil || len(places) == 0 {
		return nil, err
	}
	var conn nftables.Conn
	list, err := conn.ListChainsOfTableFamily(family)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			return nil, err
		}
		one := chain{family: families[family], table: c.Table.Name, name: c.Name, rules: rules,
			drops: c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop, devices: places[[2]string{c.Table.Name, c.Name}]}
		if c.Hooknum != nil && int(*c.Hooknum) < len(hooks[family]) {
			one.hook = hooks[family][*c.Hooknum]
			for _, device := range one.devices {
				one.hook += " of " + device
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// Attributes of nftables that are missing in package unix.
const (
	hookDevices = 4 // NFTA_HOOK_DEVS
	typeMask    = 0x3fff
)

// chainDevices returns the interfaces that the chains of a family are hooked to, by table and
// chain. Package nftables does not read this attribute.
func chainDevices(family nftables.TableFamily) (map[[2]string][]string, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP)
	request.AddRawData([]byte{byte(family), 0, 0, 0}) // struct nfgenmsg
	messages, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return nil, err
	}
	all := map[[2]string][]string{}
	for _, m := range messages {
		var table, name string
		var devices []string
		for typ, value := range attributes(m[min(len(m), 4):]) {
			switch typ {
			case unix.NFTA_CHAIN_TABLE:
				table = text(value)
			case unix.NFTA_CHAIN_NAME:
				name = text(value)
			case unix.NFTA_CHAIN_HOOK:
				for typ, value := range attributes(value) {
					if typ == hookDevices {
						for _, device := range attributes(value) {
							devices = append(devices, text(device))
						}
					}
				}
			}
		}
		all[[2]string{table, name}] = devices
	}
	return all, nil
}

// attributes returns the attributes of a message one by one.
func attributes(b []byte) func(yield func(typ int, value []byte) bool) {
	return func(yield func(int, []byte) bool) {
		for len(b) >= 4 {
			size := int(binary.NativeEndian.Uint16(b))
			if size < 4 || size > len(b) || !yield(int(binary.NativeEndian.Uint16(b[2:])&typeMask), b[4:size]) {
				return
			}
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}

// text returns the text before the first NUL.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}
