package doctor

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// network returns the expressions of "ip6 daddr" with a prefix of whole bytes.
func network(op expr.CmpOp, prefix ...byte) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 24, Len: uint32(len(prefix))},
		&expr.Cmp{Op: op, Register: 1, Data: prefix}}
}

// meta returns the expressions of "meta KEY VALUE".
func meta(key expr.MetaKey, value byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{value}}}
}

// TestBridges: of the rules that a bridge passes IPv6 packets to, those are found that drop long frames.
func TestBridges(t *testing.T) {
	p := vethtest.NewBridged(t, 1500, 1500)
	forward := nftables.ChainHookForward
	for name, tc := range map[string]struct {
		calls  string // the sysctl
		own    string // the bridge's own switch
		family nftables.TableFamily
		hook   *nftables.ChainHook
		policy nftables.ChainPolicy
		rules  [][]expr.Any
		want   string
	}{
		"no call":            {"0", "0", nftables.TableFamilyIPv6, forward, nftables.ChainPolicyDrop, nil, "none"},
		"policy":             {"1", "0", nftables.TableFamilyIPv6, forward, nftables.ChainPolicyDrop, nil, `policy of chain "c" in table ip6 "t" (hook forward)`},
		"own switch":         {"0", "1", nftables.TableFamilyIPv6, forward, nftables.ChainPolicyDrop, nil, `policy of chain "c" in table ip6 "t" (hook forward)`},
		"accepted before":    {"1", "0", nftables.TableFamilyIPv6, forward, nftables.ChainPolicyDrop, [][]expr.Any{append(network(expr.CmpOpEq, 0xff, 0x10), verdict(expr.VerdictAccept))}, ""},
		"other network":      {"1", "0", nftables.TableFamilyIPv6, forward, nftables.ChainPolicyAccept, [][]expr.Any{append(network(expr.CmpOpEq, 0xff, 0x02), verdict(expr.VerdictDrop))}, ""},
		"our network":        {"1", "0", nftables.TableFamilyIPv6, forward, nftables.ChainPolicyAccept, [][]expr.Any{append(network(expr.CmpOpEq, 0xff, 0x10, 0x88, 0xb5), verdict(expr.VerdictDrop))}, "rule with handle"},
		"one station":        {"1", "0", nftables.TableFamilyIPv6, forward, nftables.ChainPolicyAccept, [][]expr.Any{append(network(expr.CmpOpEq, make([]byte, 16)...), verdict(expr.VerdictDrop))}, "maybe"},
		"a family for both":  {"1", "0", nftables.TableFamilyINet, forward, nftables.ChainPolicyAccept, [][]expr.Any{append(meta(expr.MetaKeyNFPROTO, unix.NFPROTO_IPV6), verdict(expr.VerdictDrop))}, "table inet"},
		"IPv4":               {"1", "0", nftables.TableFamilyINet, forward, nftables.ChainPolicyAccept, [][]expr.Any{append(meta(expr.MetaKeyNFPROTO, unix.NFPROTO_IPV4), verdict(expr.VerdictDrop))}, ""},
		"UDP":                {"1", "0", nftables.TableFamilyIPv6, forward, nftables.ChainPolicyAccept, [][]expr.Any{append(meta(expr.MetaKeyL4PROTO, unix.IPPROTO_UDP), verdict(expr.VerdictDrop))}, ""},
		"TCP":                {"1", "0", nftables.TableFamilyIPv6, forward, nftables.ChainPolicyAccept, [][]expr.Any{append(meta(expr.MetaKeyL4PROTO, unix.IPPROTO_TCP), verdict(expr.VerdictDrop))}, "rule with handle"},
		"not what is routed": {"1", "0", nftables.TableFamilyIPv6, nftables.ChainHookInput, nftables.ChainPolicyDrop, nil, ""},
	} {
		err := p.InBridge(func() error {
			if err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-ip6tables", []byte(tc.calls), 0o644); err != nil {
				return err
			}
			if err := writeOwnCall(tc.own); err != nil {
				return err
			}
			var conn nftables.Conn
			table := conn.AddTable(&nftables.Table{Family: tc.family, Name: "t"})
			c := conn.AddChain(&nftables.Chain{Table: table, Name: "c", Type: nftables.ChainTypeFilter, Hooknum: tc.hook, Priority: nftables.ChainPriorityFilter, Policy: &tc.policy})
			for _, rule := range tc.rules {
				conn.AddRule(&nftables.Rule{Table: table, Chain: c, Exprs: rule})
			}
			if err := conn.Flush(); err != nil {
				return errors.Join(os.ErrNotExist, err)
			}
			defer func() {
				conn.DelTable(table)
				conn.Flush()
			}()
			b := collectBridges(files{os.DirFS("/")}, ethertype.Default)
			if (tc.calls == "1") != b.Every || (tc.own == "1") != slices.Equal(b.Own, []string{"hub"}) {
				t.Errorf("%s: the sysctl asks: %v, the switches of bridges: %q", name, b.Every, b.Own)
			}
			for _, f := range judgeBridges(&Facts{Bridges: b}) {
				if sysctl, own := strings.Contains(f.Fix, "sysctl"), strings.Contains(f.Fix, "dev hub type bridge"); sysctl != b.Every || own != (tc.own == "1") {
					t.Errorf("%s: fix %q", name, f.Fix)
				}
			}
			said := ""
			if len(b.Calling) == 0 {
				said = "none"
			}
			for _, d := range b.Drops {
				if said += d.String(); d.Maybe {
					said += " maybe"
				}
			}
			if b.Err != nil || (tc.want == "") != (said == "") || !strings.Contains(said, tc.want) {
				t.Errorf("%s: found %q, want %q; %v", name, said, tc.want, b.Err)
			}
			return nil
		})
		if errors.Is(err, os.ErrNotExist) {
			need.Skip(t, "br_netfilter and nftables for IPv6: %v", err)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// writeOwnCall sets the own switch of the bridge in this thread's network namespace. The thread gets a /sys of
// that namespace.
func writeOwnCall(value string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return err
	}
	return os.WriteFile("/sys/class/net/hub/bridge/"+ownCall, []byte(value), 0o644)
}
