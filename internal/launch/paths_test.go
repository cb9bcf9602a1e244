package launch

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// surveyed returns what a survey finds of two hosts, which are the sides of a pair.
func surveyed(t *testing.T, p *vethtest.Pair) (paths doctor.Finding, all []doctor.Finding) {
	t.Helper()
	if _, err := exec.LookPath("nsenter"); err != nil {
		need.Skip(t, "nsenter of util-linux, to be on several hosts")
	}
	script := ""
	for side := range 2 {
		holder := exec.Command("cat") // whose namespace nsenter enters
		in, err := holder.StdinPipe()
		if err == nil {
			err = p.In(side, holder.Start)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); holder.Wait() })
		script += fmt.Sprintf("[ $0 = m%d ] && at=%d; ", side, holder.Process.Pid)
	}
	c := config()
	c.Hosts = []Host{{"m0", 1}, {"m1", 1}}
	c.SSH = []string{"sh", "-c", script + roleEnv + `=station exec nsenter -t $at -n sh -c "$1"`}
	all = c.Survey(t.Context())
	return all[len(all)-1], all
}

// TestSurveyPaths: hosts send frames to each other, and what passes is in the matrix: all; what a
// bridge between them has room for; or nothing, and then what drops frames is named.
func TestSurveyPaths(t *testing.T) {
	paths, all := surveyed(t, vethtest.NewBridged(t, 1500, 1500))
	if doctor.Worst(all) > doctor.Note || paths.Check != "paths" || len(paths.Paths) != 2 || paths.Paths[1].MTU != 1500 || !strings.Contains(paths.Found, "/1500+long") || !paths.Paths[0].Long {
		t.Errorf("%+v", all)
	}
	p := vethtest.NewBridged(t, 1500, 1500)
	if err := p.SetOffloads(0, false); err != nil {
		t.Fatal(err)
	}
	paths, all = surveyed(t, p)
	if doctor.Worst(all) > doctor.Note || !paths.Paths[0].Long || !paths.Paths[0].Cut || paths.Paths[1].Cut || !strings.Contains(paths.Found, "+cut") || !strings.Contains(fmt.Sprint(all), "host m1 bob0 received long frames in ") {
		t.Errorf("%+v", all)
	}
	paths, _ = surveyed(t, vethtest.NewBridged(t, 1400, 1000))
	if paths.Level != doctor.Fail || !strings.Contains(paths.Found, "/100") || !strings.Contains(paths.Fix, "ssh m1 sudo ip link set dev bob0 mtu 100") {
		t.Errorf("%+v", paths)
	}
	p = vethtest.NewBridged(t, 1500, 1500)
	if err := p.Isolate(); err != nil {
		t.Fatal(err)
	}
	paths, _ = surveyed(t, p)
	if paths.Level != doctor.Fail || !strings.Contains(paths.Found, "lost") || !strings.Contains(paths.Means, "left bob0) to m1 (") || !strings.Contains(paths.Means, "so the path does") {
		t.Errorf("%+v", paths)
	}
	for hook, at := range map[string]*nftables.ChainHook{"ingress": nftables.ChainHookIngress, "egress": nftables.ChainHookEgress} {
		p := vethtest.New(t, 1500)
		if err := p.In(1, func() error { return dropAll(at) }); err != nil {
			need.Skip(t, "nftables for netdev: %v", err)
		}
		paths, all := surveyed(t, p)
		text := fmt.Sprint(all)
		if paths.Level != doctor.Fail || strings.Contains(paths.Fix, "bridge") || !strings.Contains(paths.Found, "none") || !strings.Contains(text, `"here" in table netdev "wall" (hook `+hook+" of bob0)") ||
			!strings.Contains(text, "ssh m1 sudo nft delete rule netdev wall here handle") {
			t.Errorf("%s: %s", hook, text)
		}
	}
}

// dropAll makes a rule that drops Bobnet's frames.
func dropAll(at *nftables.ChainHook) error {
	var conn nftables.Conn
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyNetdev, Name: "wall"})
	chain := conn.AddChain(&nftables.Chain{Table: table, Name: "here", Type: nftables.ChainTypeFilter, Hooknum: at, Priority: nftables.ChainPriorityFilter, Device: vethtest.Name})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0x88, 0xb5}},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	return conn.Flush()
}

// TestMatrix: a table of hosts stays readable, and names what does not pass.
func TestMatrix(t *testing.T) {
	hosts := []string{"node01", "node02", "x"}
	end := func(n byte) doctor.EndFacts {
		return doctor.EndFacts{Addr: ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, n}, Port: 1024}, Interface: "eth1", MTU: 9000}
	}
	good, none := doctor.Reach{Small: 12400 * time.Nanosecond, Full: time.Millisecond, MTU: 9000}, doctor.Reach{MTU: 9000}
	narrow := doctor.Reach{Small: 12400 * time.Nanosecond, MTU: 9000, Carries: 1500}
	ends := []doctor.EndFacts{end(1), end(2), end(3)}
	results := []reached{{Paths: []doctor.Reach{{}, good, narrow}}, {Paths: []doctor.Reach{good, {}, good}}, {Paths: []doctor.Reach{good, none, {}}}}
	const want = `round trip of short frames / MTU that passes
from \ to  node01     node02     x
node01     -          12us/9000  12us/1500!
node02     12us/9000  -          12us/9000
x          12us/9000  none       -`
	all := JudgePaths(hosts, ends, results)
	if len(all) != 1 || all[0].Found != want || all[0].Level != doctor.Fail || !strings.Contains(all[0].Means, "from x to node02:") || len(all[0].Paths) != 6 {
		t.Errorf("%+v", all)
	}
	results[2].Paths[1] = good
	if all := JudgePaths(hosts, ends, results); !strings.Contains(all[0].Fix, "ssh node02 sudo ip link set dev eth1 mtu 1500") || !strings.Contains(all[0].Means, "node01 to x") {
		t.Errorf("%+v", all)
	}
	results[0].Paths[2].Carries = 200
	if all := JudgePaths(hosts, ends, results); !strings.Contains(all[0].Means, "a NIC needs 338 bytes") || strings.Contains(all[0].Fix, "mtu 200") {
		t.Errorf("%+v", all)
	}
	results[0].Paths[2], results[0].Traffic = none, doctor.Traffic{Sent: 9, Left: 8}
	if all := JudgePaths(hosts, ends, results); !strings.Contains(all[0].Found, "lost") || !strings.Contains(all[0].Means, "node01 (8 left eth1) to x (0 arrived at eth1). Neither host drops them, so the path does") {
		t.Errorf("%+v", all)
	}
	results[0].Paths[2], results[0].Traffic = good, doctor.Traffic{}
	ends[2].Err = "no interface"
	results[1].Traffic = doctor.Traffic{Sent: 5}
	all = JudgePaths(hosts, ends, results)
	if len(all) != 3 || !strings.Contains(all[0].Found, "counted none of them") || !strings.Contains(all[1].Found, "cannot open a NIC: no interface") || all[2].Level != doctor.OK || !strings.Contains(all[2].Found, "?") {
		t.Errorf("%+v", all)
	}
}
