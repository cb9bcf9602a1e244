package doctor

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// big returns a number of two bytes in network order.
func big(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }

// etherType returns the expressions of "ether type N".
func etherType(op expr.CmpOp, n uint16) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseLLHeader, Offset: framing.OffsetType, Len: 2},
		&expr.Cmp{Op: op, Register: 1, Data: big(n)},
	}
}

// protocol returns the expressions of "meta protocol N".
func protocol(n uint16) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: big(n)}}
}

func verdict(kind expr.VerdictKind) expr.Any { return &expr.Verdict{Kind: kind} }

// rulesets are chains, and what is found of them.
var rulesets = map[string]struct {
	family nftables.TableFamily
	hook   *nftables.ChainHook
	device string
	policy nftables.ChainPolicy
	rules  [][]expr.Any
	want   string // "" for nothing
}{
	"ingress": {nftables.TableFamilyNetdev, nftables.ChainHookIngress, vethtest.Name, nftables.ChainPolicyAccept,
		[][]expr.Any{append(etherType(expr.CmpOpEq, 0x88b5), verdict(expr.VerdictDrop))}, `of chain "c" in table netdev "t" (hook ingress of bob0)`},
	"egress, and the rules before it": {nftables.TableFamilyNetdev, nftables.ChainHookEgress, vethtest.Name, nftables.ChainPolicyAccept,
		[][]expr.Any{append(protocol(0x800), verdict(expr.VerdictAccept)), append(protocol(0x88b5), &expr.Counter{}, verdict(expr.VerdictDrop))}, "egress of bob0"},
	"another EtherType": {nftables.TableFamilyNetdev, nftables.ChainHookEgress, vethtest.Name, nftables.ChainPolicyAccept,
		[][]expr.Any{append(protocol(0x88b6), verdict(expr.VerdictDrop))}, ""},
	"all but IP": {nftables.TableFamilyNetdev, nftables.ChainHookEgress, vethtest.Name, nftables.ChainPolicyAccept,
		[][]expr.Any{append(etherType(expr.CmpOpNeq, 0x800), verdict(expr.VerdictDrop))}, "rule with handle"},
	"allowed first": {nftables.TableFamilyNetdev, nftables.ChainHookIngress, vethtest.Name, nftables.ChainPolicyAccept,
		[][]expr.Any{append(protocol(0x88b5), verdict(expr.VerdictAccept)), {verdict(expr.VerdictDrop)}}, ""},
	"policy": {nftables.TableFamilyNetdev, nftables.ChainHookIngress, vethtest.Name, nftables.ChainPolicyDrop,
		[][]expr.Any{append(protocol(0x800), verdict(expr.VerdictAccept))}, "policy of chain"},
	"another interface": {nftables.TableFamilyNetdev, nftables.ChainHookIngress, "lo", nftables.ChainPolicyDrop, nil, ""},
	"a rate": {nftables.TableFamilyNetdev, nftables.ChainHookIngress, vethtest.Name, nftables.ChainPolicyAccept,
		[][]expr.Any{append(protocol(0x88b5), &expr.Limit{Type: expr.LimitTypePkts, Rate: 1, Unit: expr.LimitTimeSecond, Burst: 5, Over: true}, verdict(expr.VerdictDrop))}, "maybe"},
	"bridge": {nftables.TableFamilyBridge, nftables.ChainHookForward, "", nftables.ChainPolicyAccept,
		[][]expr.Any{append(etherType(expr.CmpOpEq, 0x88b5), verdict(expr.VerdictDrop))}, `in table bridge "t" (hook forward)`},
}

// withRules makes a table in a namespace, has f run, and removes it.
func withRules(t *testing.T, p *vethtest.Pair, name string, f func() error) {
	t.Helper()
	r := rulesets[name]
	table := &nftables.Table{Family: r.family, Name: "t"}
	err := p.In(0, func() error {
		var conn nftables.Conn
		conn.AddTable(table)
		c := conn.AddChain(&nftables.Chain{Table: table, Name: "c", Type: nftables.ChainTypeFilter, Hooknum: r.hook, Priority: nftables.ChainPriorityFilter, Device: r.device, Policy: &r.policy})
		for _, rule := range r.rules {
			conn.AddRule(&nftables.Rule{Table: table, Chain: c, Exprs: rule})
		}
		if err := conn.Flush(); err != nil {
			need.Skip(t, "nftables for netdev and bridge: %s: %v", name, err)
		}
		defer func() {
			conn.DelTable(table)
			conn.Flush()
		}()
		return f()
	})
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// TestDrops: rules that drop Bobnet's frames on the interface are found, with their names, and
// others are not.
func TestDrops(t *testing.T) {
	p := vethtest.New(t, 1500)
	for name, r := range rulesets {
		withRules(t, p, name, func() error {
			drops, err := Drops(vethtest.Name, ethertype.Default)
			if err != nil {
				return err
			}
			said := ""
			for _, d := range drops {
				if said += d.String(); d.Maybe {
					said += " maybe"
				}
				if d.Others != (r.family == nftables.TableFamilyBridge) {
					t.Errorf("%s: of others' frames: %v", name, d.Others)
				}
			}
			if (r.want == "") != (said == "") || !strings.Contains(said, r.want) {
				t.Errorf("%s: found %q, want %q", name, said, r.want)
			}
			return nil
		})
	}
}

// TestFindDrops: chains that others jump to are gone through, and a rule that may have accepted a
// frame leaves open whether a later one drops it.
func TestFindDrops(t *testing.T) {
	rule := func(handle uint64, exprs ...expr.Any) *nftables.Rule {
		return &nftables.Rule{Handle: handle, Exprs: exprs}
	}
	jump := &expr.Verdict{Kind: expr.VerdictJump, Chain: "sub"}
	sub := chain{family: "netdev", table: "t", name: "sub", rules: []*nftables.Rule{rule(7, append(protocol(0x88b5), verdict(expr.VerdictDrop))...), rule(8, jump)}}
	for name, tc := range map[string]struct {
		rules []*nftables.Rule
		drops bool
		want  []Drop
	}{
		"a jump":             {[]*nftables.Rule{rule(1, jump)}, false, []Drop{{Chain: "sub", Handle: 7}}},
		"a jump that may be": {[]*nftables.Rule{rule(1, &expr.Limit{}, jump)}, false, []Drop{{Chain: "sub", Handle: 7, Maybe: true}}},
		"accepted perhaps":   {[]*nftables.Rule{rule(1, &expr.Lookup{}, verdict(expr.VerdictAccept))}, true, []Drop{{Chain: "c", Maybe: true}}},
		"returns":            {[]*nftables.Rule{rule(1, verdict(expr.VerdictReturn)), rule(2, verdict(expr.VerdictDrop))}, true, []Drop{{Chain: "c"}}},
		"masked": {[]*nftables.Rule{rule(3, &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseLLHeader, Offset: framing.OffsetType, Len: 2},
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 2, Mask: big(0xfff0), Xor: big(0)}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: big(0x88b0)}, verdict(expr.VerdictDrop))}, false, []Drop{{Chain: "c", Handle: 3}}},
	} {
		got := findDrops([]chain{{family: "netdev", table: "t", name: "c", hook: "ingress", drops: tc.drops, rules: tc.rules}, sub}, sample{iface: "eth0", typ: ethertype.Default})
		if len(got) != len(tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
			continue
		}
		for i, d := range got {
			if d.Chain != tc.want[i].Chain || d.Handle != tc.want[i].Handle || d.Maybe != tc.want[i].Maybe {
				t.Errorf("%s: %+v, want %+v", name, d, tc.want[i])
			}
		}
	}
}

// TestCollectFilter: doctor on an interface whose frames are dropped names the rule, and counts
// that none leave.
func TestCollectFilter(t *testing.T) {
	p := vethtest.New(t, 1500)
	withRules(t, p, "all but IP", func() error {
		f := Collect(context.Background(), &vipl.Config{Interface: vethtest.Name, Spin: -1})
		if len(f.Filter.Drops) != 1 || f.Filter.Err != nil || f.Traffic.Sent == 0 {
			t.Errorf("%+v, %+v", f.Filter, f.Traffic)
		}
		if all := judgeFilter(f); len(all) == 0 || all[0].Level != Fail || !strings.Contains(all[0].Fix, "nft delete rule netdev t c handle") {
			t.Errorf("%+v", all)
		}
		f.Filter = Filter{} // as a user without CAP_NET_ADMIN has it
		if all := judgeFilter(f); len(all) == 0 || !strings.Contains(all[0].Found, "counted none of them") {
			t.Errorf("%+v, %+v", all, f.Traffic)
		}
		return nil
	})
}

// TestCarries: of a path that carries less than both interfaces the MTU is found that it carries.
func TestCarries(t *testing.T) {
	p := vethtest.NewBridged(t, 1400, 1000)
	var nics [2]*vipl.NIC
	for side := range nics {
		err := p.In(side, func() (err error) {
			nics[side], err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Spin: -1})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer nics[side].Close()
	}
	peer := Peer{Addr: nics[1].Addr(), MTU: 1400}
	if peer.measure(t.Context(), nics[0]); peer.SmallErr != nil || peer.FullErr == nil || peer.Carries < 1000 || peer.Carries > 1004 { // a veth lets a VLAN tag more pass
		t.Errorf("%+v", peer)
	}
	f := &Facts{Program: "bobnet", NIC: NIC{MTU: 1400}}
	if found := judgePeer(f, &peer); !strings.Contains(found.Found, "carries an MTU of 100") || !strings.Contains(found.Fix, "mtu 100") {
		t.Errorf("%+v", found)
	}
}
