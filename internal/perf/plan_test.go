package perf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
)

func TestPlanRefuses(t *testing.T) {
	for _, tt := range []struct {
		plan Plan
		name string // what the error must name
	}{
		{Plan{Stacks: []string{"raw", "atm"}}, `"atm"`},
		{Plan{Tests: []string{"jitter"}}, "latency"},
		{Plan{Levels: []string{"some"}}, "reception"},
		{Plan{Waits: []string{"sleep"}}, "block"},
		{Plan{Links: []string{"slip"}}, "packet"},
		{Plan{Sizes: []int{0}}, "size 0"},
		{Plan{Sizes: []int{MaxSize + 1}}, "size"},
		{Plan{MTUs: []int{67}}, "MTU 67"},
		{Plan{Stacks: []string{"raw"}, MTUs: []int{67}}, "want 68..65535"},
		{Plan{MTUs: []int{vipl.MinMTU - 1}}, "want 338..65535"},
		{Plan{Stacks: []string{"tcp", "vipl"}, MTUs: []int{1500, 100}}, "MTU 100 cannot be measured by the stacks [tcp vipl]: want 338..65535"},
		{Plan{Stacks: []string{"mplite"}, MTUs: []int{100}}, "want 338..65535"},
		{Plan{Stacks: []string{"am2"}, MTUs: []int{100}}, "want 338..65535"},
		{Plan{Stacks: []string{"vmmc"}, MTUs: []int{100}}, "want 338..65535"},
		{Plan{Count: -1}, "count -1"},
		{Plan{Credits: []int{64, 0}}, "0 credits"},
		{Plan{Credits: []int{endpoint.MaxCredits + 1}}, "1..1024"},
	} {
		err := tt.plan.Validate()
		if !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), tt.name) {
			t.Errorf("%+v: %v, want an ErrPlan that names %s", tt.plan, err, tt.name)
		}
	}
	for _, plan := range []Plan{
		{},
		{Stacks: []string{"raw", "tcp"}, MTUs: []int{ethertype.MinMTU}},
		{Stacks: []string{"vipl"}, MTUs: []int{vipl.MinMTU}},
		{Stacks: []string{"vipl"}, MTUs: []int{ethertype.MinMTU}, Links: []string{linkShm}}, // which has its own
	} {
		if err := plan.Validate(); err != nil {
			t.Errorf("%+v: %v", plan, err)
		}
	}
}

func TestPlanCases(t *testing.T) {
	p := Plan{Stacks: []string{"tcp", "raw"}, Tests: []string{Rate, Latency}}
	var got []string
	for _, c := range p.Cases(9000) {
		got = append(got, c.String())
	}
	want := []string{
		"raw latency 64 B, spin, ring, MTU 9000", "raw latency 64 B, block, ring, MTU 9000", "tcp latency 64 B, block, MTU 9000",
		"raw rate 64 B, spin, ring, MTU 9000", "raw rate 64 B, block, ring, MTU 9000", "tcp rate 64 B, block, MTU 9000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("cases\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestPlanOfCards: the stacks that run on cards are measured on them, listed as spinning, next to
// NICs; other stacks are not.
func TestPlanOfCards(t *testing.T) {
	p := Plan{Stacks: []string{"vipl", "am2", "vmmc", "vrpc", "splitc"}, Tests: []string{Latency}, Levels: []string{"delivery"},
		Links: []string{"ring", linkCard, linkShared}, Layers: Layers[:1], Credits: []int{4}}
	var got []string
	for _, c := range p.Cases(1500) {
		if OnCard(c.Link) {
			got = append(got, c.String())
		}
	}
	want := []string{
		"vrpc latency 0 B, vmmc, delivery, spin, card, MTU 1500", "vrpc latency 0 B, vmmc, delivery, spin, card-shared, MTU 1500",
		"am2 latency 64 B, short, delivery, spin, card, 4 credits, MTU 1500", "am2 latency 64 B, short, delivery, spin, card-shared, 4 credits, MTU 1500",
		"vmmc latency 64 B, delivery, spin, card, MTU 1500", "vmmc latency 64 B, delivery, spin, card-shared, MTU 1500",
		"vrpc latency 64 B, vmmc, delivery, spin, card, MTU 1500", "vrpc latency 64 B, vmmc, delivery, spin, card-shared, MTU 1500",
	}
	if !slices.Equal(got, want) {
		t.Errorf("cases\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	p.Stacks = []string{"vipl"}
	p.Links = []string{linkCard}
	if err := p.withDefaults().checkCases(p.Stacks, p.Cases(1500)); !errors.Is(err, ErrPlan) {
		t.Errorf("vipl on a card: %v, want an ErrPlan", err)
	}
}

// TestTimeoutsOfCards: cards have more time to find each other than connections of NICs have to open, and the parent
// process waits for both.
func TestTimeoutsOfCards(t *testing.T) {
	nic, card := attemptTimeout(Case{Test: Latency, Link: "ring"}, 0), attemptTimeout(Case{Test: Latency, Link: linkCard}, 0)
	if nic != sampleTimeout || openTimeout("") != sampleTimeout || card <= nic || openTimeout(linkShared) < card-nic {
		t.Errorf("an attempt takes up to %v over NICs, %v over cards", nic, card)
	}
	if got := patience(Plan{Tests: []string{Latency}, Links: []string{"ring", linkShared}}); got < 4*card {
		t.Errorf("the client half may print nothing for %v, want at least %v", got, 4*card)
	}
}

// TestPlanOfActiveMessages: the rate is measured with each number of credits,
// all else with the first; logp has no bulk messages, and other stacks have no
// logp.
func TestPlanOfActiveMessages(t *testing.T) {
	p := Plan{Stacks: []string{"vipl", "am2"}, Tests: []string{LogP, Rate}, Levels: []string{"delivery"}, Waits: []string{Spin}}
	cases := func(p Plan) (got []string) {
		for _, c := range p.Cases(1500) {
			got = append(got, c.String())
		}
		return got
	}
	if got, want := cases(p), []string{
		"vipl rate 64 B, delivery, spin, ring, MTU 1500",
		"am2 rate 64 B, short, delivery, spin, ring, 128 credits, MTU 1500",
		"am2 rate 64 B, short, delivery, spin, ring, 64 credits, MTU 1500",
		"am2 rate 64 B, short, delivery, spin, ring, 4 credits, MTU 1500",
		"am2 logp 16 B, short, delivery, spin, ring, 128 credits, MTU 1500",
	}; !slices.Equal(got, want) {
		t.Errorf("cases\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	p.Stacks, p.Tests, p.Credits, p.Sizes = []string{"am2"}, []string{LogP}, []int{8, 2}, []int{4096, 4097}
	if got, want := cases(p), []string{"am2 logp 4096 B, medium, delivery, spin, ring, 8 credits, MTU 1500"}; !slices.Equal(got, want) {
		t.Errorf("cases %q, want %q", got, want)
	}
}

// TestPlanOfVMMC: overhead is measured in two modes, and other stacks have neither it nor
// bidirectional.
func TestPlanOfVMMC(t *testing.T) {
	p := Plan{Stacks: []string{"vipl", "vmmc"}, Tests: []string{Overhead, Bidirectional}, Waits: []string{Spin}, Sizes: []int{64}}
	var got []string
	for _, c := range p.Cases(1500) {
		got = append(got, c.String())
	}
	if want := []string{
		"vmmc bidirectional 64 B, delivery, spin, ring, MTU 1500",
		"vmmc overhead 64 B, sync, delivery, spin, ring, MTU 1500",
		"vmmc overhead 64 B, async, delivery, spin, ring, MTU 1500",
	}; !slices.Equal(got, want) {
		t.Errorf("cases\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPlanLeavesOutWhatCannotBe(t *testing.T) {
	if got := (Plan{Stacks: []string{"raw"}, Tests: []string{Latency}}).Cases(68 - 20); len(got) != 0 {
		t.Errorf("raw frames of an MTU below the header: %v", got)
	}
	p := Plan{Stacks: []string{"udp"}, Tests: []string{Latency}, Sizes: []int{4, 8, 65507, 65508}}
	if got := p.Cases(1500); len(got) != 2 {
		t.Errorf("udp of 4 to 65508 bytes: %v, want those of 8 and 65507", got)
	}
	p = Plan{Stacks: []string{"vipl"}, Tests: []string{Latency}, Levels: []string{"reception"}, Waits: []string{Spin}, Links: Links}
	if got := p.Cases(1500); len(got) != len(vipl.Drivers()) || got[0].Link != "ring" || got[1].Link != "packet" || got[0].Reliability != "reception" {
		t.Errorf("one level, one way to wait, each link of NICs: %v", got)
	}
}

// TestPlanMissing: a stack that is named and has nothing to measure is an error
// that names what it has, and so is a plan without any case.
func TestPlanMissing(t *testing.T) {
	for _, tt := range []struct {
		plan Plan
		want string // a case that the error names; "" for no error
	}{
		{Plan{Stacks: []string{"line"}}, "line latency 64 B, spin, shm, MTU 65535"},
		{Plan{Stacks: []string{"raw", "line"}}, "line latency 64 B, spin, shm, MTU 65535"},
		{Plan{Stacks: []string{"line"}, Links: []string{linkShm}, Waits: []string{Block}}, "line latency 64 B, spin, shm, MTU 65535"},
		{Plan{Stacks: []string{"raw"}, Tests: []string{Read}}, "raw latency 64 B, spin, ring, MTU 1500"},
		{Plan{Stacks: []string{"raw"}, MTUs: []int{ethertype.MinMTU, 9000}}, ""},
		{Plan{Stacks: []string{"am2"}, Tests: []string{LogP}, Sizes: []int{1 << 16}}, "am2 logp 16 B, short, delivery, spin, ring, 128 credits, MTU 1500"},
		{Plan{Stacks: []string{"vipl"}, Tests: []string{Read}, Levels: []string{"unreliable"}}, "vipl read 64 B, delivery, spin, ring, MTU 1500"},
		{Plan{Tests: []string{LogP}, Sizes: []int{1 << 16}}, "in sizes of [65536] bytes"},
		{Plan{Tests: []string{Read}}, ""}, // of the others nobody has said that they are wanted
	} {
		var cases []Case
		p := tt.plan.withDefaults()
		for _, r := range p.runs() {
			cases = append(cases, r.Cases(r.MTUs[0])...)
		}
		err := p.checkCases(tt.plan.Stacks, cases)
		if tt.want == "" && err == nil {
			continue
		}
		if tt.want == "" || !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want an ErrPlan that names %q", tt.plan, err, tt.want)
		}
	}
	if _, err := Local(t.Context(), Plan{Stacks: []string{"line"}}, LocalConfig{}); !errors.Is(err, ErrPlan) {
		t.Errorf("Local with nothing to measure: %v", err)
	}
}

// TestPlanRuns: shm is measured for itself, with the baselines of shared memory.
func TestPlanRuns(t *testing.T) {
	p := Plan{Stacks: []string{"line", "handoff", "raw"}, Tests: Tests, Waits: []string{Spin}, Links: []string{"ring", linkShm}, MTUs: []int{1500, 9000}}
	var got []string
	for _, r := range p.withDefaults().runs() {
		for _, c := range r.Cases(r.MTUs[0]) {
			got = append(got, fmt.Sprint(c.Stack, " ", c.Test, " ", c.Link, " ", c.MTU, " ", r.together()))
		}
	}
	want := []string{
		"raw latency ring 1500 false", "raw bandwidth ring 1500 false", "raw rate ring 1500 false",
		"raw latency ring 9000 false", "raw bandwidth ring 9000 false", "raw rate ring 9000 false",
		"line latency shm 65535 true", "raw latency shm 65535 true",
		"handoff bandwidth shm 65535 true", "raw bandwidth shm 65535 true", "raw rate shm 65535 true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOutstanding(t *testing.T) {
	for size, want := range map[int]int{1: 1024, 64: 1024, 1 << 16: 64, 1 << 20: 4, MaxSize: 4} {
		if got := outstanding(size); got != want {
			t.Errorf("outstanding(%d) = %d, want %d", size, got, want)
		}
	}
}

// choice is what a case's way means to the link.
func choice(way string) ring.Choice {
	c, err := ring.ParseChoice(way)
	if err != nil {
		return ring.Auto
	}
	return c
}

func TestWays(t *testing.T) {
	p := Plan{Stacks: []string{"raw", "vipl", "tcp"}, Tests: []string{Rate}, Waits: []string{Spin}, Levels: Levels[:1], Links: []string{"ring", "packet"},
		XDP: []string{"off", "auto"}, Long: []string{"auto", "off"}}
	var got []string
	for _, c := range p.Cases(1500) {
		got = append(got, strings.TrimSpace(c.Stack+" "+c.Link+" "+c.Ways.String()))
		if c.Link != "ring" {
			continue
		}
		want := ring.Config{Interface: "eth0", XDP: choice(c.XDP), Long: choice(c.Long)}
		if c.Stack == "raw" { // by default the plain way
			want.XDP, want.Long = ring.Off, ring.Off
		}
		cfg, err := c.ringConfig("eth0")
		if err != nil || *cfg != want {
			t.Errorf("%v: %+v, %v; want %+v", c, cfg, err, want)
		}
	}
	want := []string{"raw ring", "raw ring xdp=off", "raw packet",
		"vipl ring", "vipl ring long=off", "vipl ring xdp=off", "vipl ring xdp=off/long=off", "vipl packet", "tcp"}
	if !slices.Equal(got, want) {
		t.Errorf("cases\n%q, want\n%q", got, want)
	}
	c := Case{Stack: "raw", Link: "ring", Ways: Ways{XDP: "on"}}
	if cfg, err := c.ringConfig("eth0"); err != nil || cfg.XDP != ring.On {
		t.Errorf("raw with AF_XDP: %+v, %v", cfg, err)
	}
}

func TestWaysByDefault(t *testing.T) {
	for _, c := range (Plan{Tests: []string{Rate}}).Cases(1500) {
		if c.Ways != (Ways{}) {
			t.Errorf("%v takes a way by default", c)
		}
	}
	for _, p := range []Plan{{XDP: []string{"sometimes"}}, {Long: []string{"sometimes"}}} {
		if err := p.Validate(); !errors.Is(err, ErrPlan) {
			t.Errorf("Validate of %+v = %v", p, err)
		}
	}
}

// TestSealedWays: with a key, vipl over the ring is measured plain and sealed, and nothing
// else is.
func TestSealedWays(t *testing.T) {
	p := Plan{Stacks: []string{"raw", "vipl", "mplite"}, Tests: []string{Latency}, Waits: []string{Spin}, Levels: Levels[:1], Links: []string{"ring", "packet"}, Sealed: true}
	var got []string
	for _, c := range p.Cases(9000) {
		got = append(got, strings.TrimSpace(c.Stack+" "+c.Link+" "+c.Ways.String()))
		if (c.key() != nil) != (c.Seal == "on") {
			t.Errorf("%v has a key: %v", c, c.key() != nil)
		}
	}
	want := []string{"raw ring", "raw packet", "vipl ring", "vipl ring seal=on", "vipl packet", "mplite ring", "mplite packet"}
	if !slices.Equal(got, want) {
		t.Errorf("cases\n%q, want\n%q", got, want)
	}
}
