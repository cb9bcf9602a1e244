package launch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/vipl"
)

// pathPatience is the maximum time for the exchange of frames between nodes.
const pathPatience = time.Minute

// reached is a node's report about its paths to the others, in the order of the request.
type reached struct {
	Paths   []doctor.Reach
	Traffic doctor.Traffic
}

// openEnd opens this node's NIC for a test of paths.
func (n *node) openEnd() {
	n.end = doctor.OpenEnd(context.Background(), n.nic)
	n.out.send(&message{End: &n.end.EndFacts})
}

// reach sends frames to the others.
func (n *node) reach(others []doctor.EndFacts) {
	paths, traffic := n.end.Reach(context.Background(), others)
	n.out.send(&message{Reached: &reached{paths, traffic}})
}

// ask sends a message to a node, and waits at most patience for its next message.
func (r *remote) ask(ctx context.Context, m *message, patience time.Duration) (*message, error) {
	timer := time.AfterFunc(patience, r.kill)
	defer timer.Stop()
	defer context.AfterFunc(ctx, r.kill)()
	if err := r.send(m); err != nil {
		return nil, err
	}
	return receive(r.in)
}

// tryPaths makes all nodes exchange frames, and judges the results.
func (c *Config) tryPaths(ctx context.Context, nodes []*remote) []doctor.Finding {
	hosts := make([]string, len(nodes))
	ends, results := make([]doctor.EndFacts, len(nodes)), make([]reached, len(nodes))
	askAll(nodes, func(i int, r *remote) {
		hosts[i] = r.host.Name
		m, err := r.ask(ctx, &message{Open: true}, c.Timeout)
		switch {
		case err != nil:
			ends[i].Err = r.loss(err)
		case m.End == nil:
			ends[i].Err = errNoNode.Error()
		default:
			ends[i] = *m.End
		}
	})
	askAll(nodes, func(i int, r *remote) {
		if ends[i].Err != "" {
			return
		}
		m, err := r.ask(ctx, &message{Reach: ends}, pathPatience)
		if err == nil && (m.Reached == nil || len(m.Reached.Paths) != len(ends)) {
			err = errNoNode
		}
		if err != nil {
			ends[i].Err = r.loss(err)
			return
		}
		results[i] = *m.Reached
	})
	return JudgePaths(hosts, ends, results)
}

// askAll calls f for all nodes concurrently.
func askAll(nodes []*remote, f func(i int, r *remote)) {
	var wait sync.WaitGroup
	for i, r := range nodes {
		wait.Go(func() { f(i, r) })
	}
	wait.Wait()
}

// JudgePaths reports which hosts reach each other, as a matrix, and why frames are lost. It is pure.
func JudgePaths(hosts []string, ends []doctor.EndFacts, results []reached) (all []doctor.Finding) {
	clean := make([]bool, len(hosts)) // no known cause of drops on the host
	for i, host := range hosts {
		found := judgeEnd(host, &ends[i], &results[i].Traffic)
		clean[i] = doctor.Worst(found) < doctor.Fail
		all = append(all, found...)
	}
	paths := doctor.Finding{Check: "paths"}
	var none, narrow, between []string
	carries, unexplained := 0, false
	for i, from := range hosts {
		for j, to := range hosts {
			if i == j || ends[i].Err != "" || ends[j].Err != "" {
				continue
			}
			r := results[i].Paths[j]
			paths.Paths = append(paths.Paths, doctor.Path{From: from, To: to, Small: r.Small, Full: r.Full, MTU: passes(&r), Long: r.Long, Cut: r.Cut})
			switch {
			case r.Small == 0:
				none = append(none, from+" to "+to)
				unexplained = unexplained || clean[i] && clean[j]
				if sent := results[i].Traffic.Left; lostBetween(i, j, clean, results) {
					between = append(between, fmt.Sprintf("%s (%d left %s) to %s (%d arrived at %s)", from, sent, ends[i].Interface, to, results[j].Traffic.Came, ends[j].Interface))
				}
			case r.Full == 0:
				narrow = append(narrow, from+" to "+to)
				if r.Carries > 0 && (carries == 0 || r.Carries < carries) {
					carries = r.Carries
				}
			}
		}
	}
	paths.Found = matrix(hosts, ends, results, clean)
	all = append(all, judgeCut(hosts, ends, results)...)
	switch {
	case len(none) > 0:
		paths.Level = doctor.Fail
		paths.Means = "no frame came back from " + some(none) + ": programs there cannot find each other"
		if len(between) > 0 {
			paths.Means += ". Frames leave these hosts and do not arrive: " + some(between) +
				". Neither host drops them, so the path does, for example a filter for the EtherType in a switch or bridge, or a VLAN"
		}
		paths.Fix = "bobnet doctor --hosts ...   # run again after fixing the hosts above"
		if unexplained {
			paths.Fix = "sudo bridge -s link   # on the switch or bridge between them: shows drops of each port\nsudo nft list ruleset   # on the switch or bridge: shows its rules"
		}
	case len(narrow) > 0:
		paths.Level = doctor.Fail
		paths.Means = "short frames come back from " + some(narrow) + ", full frames do not: connections fail with ErrInvalidMTU"
		if carries > 0 && carries < vipl.MinMTU {
			paths.Means += fmt.Sprintf("; a NIC needs %d bytes, so the path must carry longer frames", vipl.MinMTU)
			paths.Fix = doctor.ShowLinks
			break
		}
		for i, host := range hosts {
			if carries > 0 && ends[i].Err == "" && ends[i].MTU > carries {
				paths.Fix += fmt.Sprintf("ssh %s sudo ip link set dev %s mtu %d\n", host, ends[i].Interface, carries)
			}
		}
		if paths.Fix = strings.TrimSuffix(paths.Fix, "\n"); paths.Fix == "" {
			paths.Fix = "bobnet doctor --hosts ...   # run again: the MTU of the paths could not be determined"
		}
	}
	return append(all, paths)
}

// judgeCut reports the hosts that received long frames in segments.
func judgeCut(hosts []string, ends []doctor.EndFacts, results []reached) (all []doctor.Finding) {
	for i, host := range hosts {
		if cut := results[i].Traffic.RxCut; cut > 0 {
			all = append(all, doctor.Finding{Level: doctor.Note, Check: "host " + host, Found: fmt.Sprintf("%s received long frames in %d segments", ends[i].Interface, cut),
				Means: "a card, or a kernel without segmentation offload, cuts them, and the receiver joins the segments: this costs more processor time than whole frames",
				Fix:   "bobnet doctor   # on the other hosts: reports whether their interfaces cut them"})
		}
	}
	return all
}

// judgeEnd reports why one host's frames are lost.
func judgeEnd(host string, end *doctor.EndFacts, t *doctor.Traffic) (all []doctor.Finding) {
	check := "host " + host
	if end.Err != "" {
		return []doctor.Finding{{Level: doctor.Fail, Check: check, Found: "cannot open a NIC: " + end.Err, Means: "no frame can be sent from it", Fix: on(Host{Name: host}, "bobnet doctor")}}
	}
	all = doctor.JudgeDrops(check, end.Drops)
	for i := range all {
		all[i].Fix = "ssh " + host + " " + strings.ReplaceAll(all[i].Fix, "\n", "\nssh "+host+" ")
	}
	if len(all) == 0 && t.Sent > 0 && t.Left == 0 {
		all = append(all, doctor.Finding{Level: doctor.Fail, Check: check, Found: fmt.Sprintf("%d frames were sent, but %s counted none of them", t.Sent, end.Interface),
			Means: "the host drops them on egress: by a rule of nftables (hook egress) or of traffic control", Fix: "ssh " + host + " sudo nft list ruleset netdev"})
	}
	if t.TxDropped+t.RxDropped > 0 {
		all = append(all, doctor.Finding{Level: doctor.Note, Check: check, Found: fmt.Sprintf("%s dropped %d received and %d outgoing frames during the test", end.Interface, t.RxDropped, t.TxDropped),
			Means: "they may belong to other programs", Fix: "ssh " + host + " ip -s link show dev " + end.Interface})
	}
	return all
}

// passes returns the largest MTU whose frames came back, or 0.
func passes(r *doctor.Reach) int {
	switch {
	case r.Small == 0:
		return 0
	case r.Full == 0:
		return r.Carries
	}
	return r.MTU
}

// some joins the first few elements of a list.
func some(list []string) string {
	const most = 4
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// lostBetween reports whether frames leave host i and host j receives none, without a known cause of
// drops on either host.
func lostBetween(i, j int, clean []bool, results []reached) bool {
	return results[i].Paths[j].Small == 0 && clean[i] && clean[j] && results[i].Traffic.Left > 0
}

// matrix returns a table with a row for each sending host and a column for each answering host. A
// cell contains the round-trip time of short frames, the MTU that passes, and whether long frames
// pass.
func matrix(hosts []string, ends []doctor.EndFacts, results []reached, clean []bool) string {
	rows := [][]string{append([]string{"from \\ to"}, hosts...)}
	for i, host := range hosts {
		row := []string{host}
		for j := range hosts {
			switch {
			case i == j:
				row = append(row, "-")
			case ends[i].Err != "" || ends[j].Err != "":
				row = append(row, "?")
			case lostBetween(i, j, clean, results):
				row = append(row, "lost") // on the path
			case results[i].Paths[j].Small == 0:
				row = append(row, "none")
			default:
				r := &results[i].Paths[j]
				cell := fmt.Sprintf("%.0fus/%d", float64(r.Small)/float64(time.Microsecond), passes(r))
				if r.Full == 0 {
					cell += "!" // less than the MTU of both interfaces
				}
				switch {
				case r.Cut:
					cell += "+cut" // long frames pass in segments
				case r.Long:
					cell += "+long"
				}
				row = append(row, cell)
			}
		}
		rows = append(rows, row)
	}
	widths := make([]int, len(hosts)+1)
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	b.WriteString("round trip of short frames / MTU that passes\n")
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%-*s  ", widths[i], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// able returns the nodes that can take part in a test of paths: those with the same version and a
// usable interface.
func (c *Config) able(nodes []*remote, answers []Answer) []*remote {
	return slices.DeleteFunc(slices.Clone(nodes), func(r *remote) bool {
		i := slices.IndexFunc(answers, func(a Answer) bool { return a.Host == r.host })
		inv := answers[i].Inv
		return inv.Protocol != Protocol || inv.Version != c.Version || inv.Trouble != ""
	})
}
