package doctor

import "fmt"

// judgeFilter looks for what drops frames on this host.
func judgeFilter(f *Facts) []Finding {
	name := f.Interfaces.Chosen.Name
	all := JudgeDrops("filter", f.Filter.Drops)
	if t := &f.Traffic; len(all) == 0 && t.Sent > 0 && t.Left == 0 {
		all = append(all, Finding{Level: Fail, Check: "filter", Found: fmt.Sprintf("%d frames were sent, and %s has counted none that left", t.Sent, name),
			Means: "something on this host drops them as they leave: a rule of nftables (hook egress), or of traffic control",
			Fix:   fmt.Sprintf("sudo nft list ruleset netdev\nsudo tc -s filter show dev %s egress", name)})
	}
	if t := &f.Traffic; t.TxDropped+t.RxDropped > 0 {
		all = append(all, Finding{Level: Note, Check: "drops", Found: fmt.Sprintf("%s dropped %d frames that came and %d that were to leave, within a second", name, t.RxDropped, t.TxDropped),
			Means: "its queues overflow, or nobody wanted the frames: they may be of other programs", Fix: lookAt(name)})
	}
	return all
}

// JudgeDrops returns a finding for each rule that drops Bobnet's frames. It is pure.
func JudgeDrops(check string, drops []Drop) (all []Finding) {
	for _, d := range drops {
		found := Finding{Level: Fail, Check: check, Found: "nftables drops Bobnet's frames: " + d.String(),
			Means: "programs do not reach each other through this interface", Fix: d.fix()}
		switch {
		case d.Others:
			found.Level, found.Means = Warn, "programs whose frames this host bridges do not reach each other; its own interface is not concerned"
		case d.Maybe:
			found.Level, found.Found = Warn, "nftables may drop Bobnet's frames: "+d.String()
			found.Means = "the rule asks for more than the EtherType, such as an address, a set or a rate: see whether it means Bobnet's frames"
		}
		all = append(all, found)
	}
	return all
}
