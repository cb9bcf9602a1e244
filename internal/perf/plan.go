package perf

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
)

// The names that a plan may use, in the order of the output.
var (
	Tests  = []string{Latency, Bandwidth, Bidirectional, Rate, Read, Write, Overhead, LogP, Primitives, Bulk, Barrier}
	Levels = []string{"delivery", "reception", "unreliable"}
	Waits  = []string{Spin, Block}
	Links  = append(vipl.Drivers(), linkCard, linkShared)
	Layers = splitc.Layers()
)

// linkShm joins processes of one host. Local runs both halves in one namespace for it. Its frames
// always have the maximum length, whatever the plan's MTU.
const linkShm = "shm"

// defaultTests are all tests except barriers and those of Split-C's operations, which have many
// cases. Split-C's logp is also measured only on request.
var defaultTests = slices.DeleteFunc(slices.Clone(Tests), func(test string) bool { return test == Primitives || test == Bulk || test == Barrier })

// The defaults of Plan's numbers.
const (
	DefaultMTU    = 1500
	DefaultRounds = 9
	DefaultSample = 30 * time.Millisecond
)

// Sizes in bytes that a test uses if the plan names none.
var defaultSizes = map[string][]int{Latency: {64}, Bandwidth: {1 << 20}, Bidirectional: {1 << 20}, Rate: {64},
	Read: {64}, Write: {1 << 20}, Overhead: {64, 4 << 10, 1 << 20}, LogP: {16},
	Primitives: {4}, Barrier: {0}, Bulk: {4, 64, 1 << 10, 4 << 10, 64 << 10, 1 << 20}}

// defaultCredits are the numbers of requests that am2 has in flight: the number that other stacks
// have, half of it, and the number of the virtual-network paper.
var defaultCredits = []int{usualCredits, usualCredits / 2, endpoint.DefaultCredits.Short}

// usualCredits is the number that tables do not mention. With messages of 4 KiB it fills eight long
// frames, so that the sender need not wait for answers. Other stacks have 4 MiB in flight.
const usualCredits = 128

// MaxSize is the maximum size of a message in bytes.
const MaxSize = 64 << 20

// Plan selects measurements. Empty fields mean the defaults that `bobnet perf` documents. Several
// goroutines may read a Plan.
type Plan struct {
	Stacks, Tests, Levels, Waits, Links, Layers, XDP, Long []string

	Sizes   []int         // bytes; nil: the test's default sizes
	Credits []int         // requests of am2 in flight: the rate is measured with each number, other tests with the first; nil: 128, 64 and 4
	MTUs    []int         // MTUs of the links that Local creates; nil: DefaultMTU
	Count   int           // messages in a measurement; 0: as many as fit in Sample
	Rounds  int           // samples of each case; 0: DefaultRounds
	Sample  time.Duration // length of a sample; 0: DefaultSample
	Limit   time.Duration // after this time no case gets another sample; 0: no limit
	// Strict ends the measurement at Limit even if cases have no sample. Such cases have no record,
	// and do not count as failures. Sizes are measured in the order of the field Sizes.
	Strict bool
	// Libtirpc is the path of the program that BuildLibtirpc has built. It requires that both
	// halves are on this machine. If it is empty, vrpc is measured without libtirpc.
	Libtirpc string
	// UCX is the program that FindUCX has found. Empty leaves the stack ucx out.
	UCX    string
	Sealed bool // on the link ring, vipl is also measured with sealed frames

	brief bool // the tests are the default ones
}

// withDefaults returns the plan with every empty field filled in.
func (p Plan) withDefaults() Plan {
	p.brief = p.brief || len(p.Tests) == 0
	fill(&p.Stacks, Stacks())
	fill(&p.Tests, defaultTests)
	fill(&p.Levels, Levels)
	fill(&p.Waits, Waits)
	fill(&p.Links, Links[:1])
	fill(&p.Layers, Layers)
	fill(&p.XDP, Choices[:1])
	fill(&p.Long, Choices[:1])
	fill(&p.Credits, defaultCredits)
	fill(&p.MTUs, []int{DefaultMTU})
	if p.Rounds == 0 {
		p.Rounds = DefaultRounds
	}
	if p.Sample == 0 {
		p.Sample = DefaultSample
	}
	return p
}

func fill[T any](field *[]T, values []T) {
	if len(*field) == 0 {
		*field = values
	}
}

// Validate returns an error if something in the plan cannot be measured. The error wraps ErrPlan
// and names valid values.
func (p Plan) Validate() error {
	p = p.withDefaults()
	for _, s := range p.Stacks {
		if _, err := stackByName(s); err != nil {
			return err
		}
	}
	checks := []struct {
		what       string
		have, want []string
	}{
		{"test", p.Tests, Tests},
		{"reliability", p.Levels, Levels},
		{"wait", p.Waits, Waits},
		{"link", p.Links, Links},
		{"layer", p.Layers, Layers},
		{"XDP", p.XDP, Choices},
		{"long", p.Long, Choices},
	}
	for _, c := range checks {
		for _, name := range c.have {
			if !slices.Contains(c.want, name) {
				return fmt.Errorf("perf: %s %q %w: want some of %v", c.what, name, ErrPlan, c.want)
			}
		}
	}
	return p.validateNumbers()
}

func (p Plan) validateNumbers() error {
	for _, n := range p.Sizes {
		if n < 1 || n > MaxSize {
			return fmt.Errorf("perf: size %d %w: want 1..%d bytes", n, ErrPlan, MaxSize)
		}
	}
	for _, n := range p.Credits {
		if n < 1 || n > endpoint.MaxCredits {
			return fmt.Errorf("perf: %d credits %w: want 1..%d", n, ErrPlan, endpoint.MaxCredits)
		}
	}
	lowest := p.minMTU()
	for _, n := range p.MTUs {
		if n < lowest || n > ethertype.MaxMTU {
			return fmt.Errorf("perf: MTU %d %w by the stacks %v: want %d..%d", n, ErrPlan, p.Stacks, lowest, ethertype.MaxMTU)
		}
	}
	if p.Count < 0 || p.Rounds < 0 || p.Sample < 0 || p.Limit < 0 {
		return fmt.Errorf("perf: count %d, %d rounds of %v %w: none may be negative", p.Count, p.Rounds, p.Sample, ErrPlan)
	}
	return nil
}

// minMTU is the minimum MTU in bytes for all stacks of a plan with defaults. Stacks on a NIC need
// the minimum of vipl, unless their link has an MTU of its own.
func (p Plan) minMTU() int {
	onNIC := func(stack string) bool {
		return slices.Contains([]string{"vipl", "mplite", "am2", "vmmc", "vrpc", "splitc", "stream"}, stack)
	}
	if p.together() || !slices.ContainsFunc(p.Stacks, onNIC) {
		return ethertype.MinMTU
	}
	return vipl.MinMTU
}

// runs divides a plan with defaults into parts that one pair of halves can measure. There is one
// part for each MTU, and one for the link shm, whose MTU is fixed. In the part for shm, the stacks
// of the kernel use the loopback interface.
func (p Plan) runs() []Plan {
	var all []Plan
	add := func(r Plan) {
		if len(r.Cases(r.MTUs[0])) > 0 {
			all = append(all, r)
		}
	}
	wire := slices.DeleteFunc(slices.Clone(p.Links), func(link string) bool { return link == linkShm })
	for _, mtu := range p.MTUs {
		if r := p; len(wire) > 0 {
			r.MTUs, r.Links = []int{mtu}, wire
			add(r)
		}
	}
	if len(wire) < len(p.Links) {
		r := p
		r.MTUs, r.Links = []int{ethertype.MaxMTU}, []string{linkShm}
		add(r)
	}
	return all
}

// together reports whether both halves must be in one namespace.
func (p Plan) together() bool { return slices.Equal(p.Links, []string{linkShm}) }

// sizes returns the sizes of a test.
func (p Plan) sizes(test string) []int {
	if len(p.Sizes) > 0 && sized(test) {
		return p.Sizes
	}
	return defaultSizes[test]
}

// Cases returns the measurements that the plan asks for on a link of one MTU,
// in the order of the output.
func (p Plan) Cases(mtu int) []Case {
	p = p.withDefaults()
	var cases []Case
	for _, test := range p.Tests {
		for _, size := range p.sizes(test) {
			for _, s := range stacks {
				if slices.Contains(p.Stacks, s.name) && measures(s.name, test) && !(p.brief && test == LogP && s.name == "splitc") {
					cases = append(cases, s.stack.Cases(&p, test, mtu, size)...)
				}
			}
		}
	}
	cases = slices.DeleteFunc(cases, Case.impossible)
	sortCases(cases)
	return p.withWays(cases)
}

// checkCases returns an error if the plan has no case for a stack that the user has named, because
// the user would miss it in the output. The error wraps ErrPlan and names a possible case.
func (p Plan) checkCases(named []string, cases []Case) error {
	for _, stack := range named {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Stack == stack }) {
			return fmt.Errorf("perf: stack %q %w %v; but it can: %v", stack, ErrPlan, p.asked(), p.instead(stack))
		}
	}
	if len(cases) == 0 {
		return fmt.Errorf("perf: no stack %w %v", ErrPlan, p.asked())
	}
	return nil
}

// asked describes the plan's tests, waits, links and sizes.
func (p Plan) asked() string {
	text := fmt.Sprintf("by the tests %v, waiting by %v, over the links %v", p.Tests, p.Waits, p.Links)
	if len(p.Sizes) > 0 {
		text += fmt.Sprintf(", in sizes of %v bytes", p.Sizes)
	}
	return text
}

// instead returns the possible case of a stack that is nearest to the plan.
func (p Plan) instead(stack string) Case {
	p.Stacks = []string{stack}
	for _, change := range []func(){
		func() { p.Sizes = nil },
		func() { p.Links = Links },
		func() { p.Waits, p.Levels = Waits, Levels },
		func() { p.Tests = Tests },
		func() { p.MTUs = []int{ethertype.MaxMTU} },
	} {
		change()
		for _, r := range p.runs() {
			return r.Cases(r.MTUs[0])[0] // runs returns no run without cases
		}
	}
	return Case{Stack: stack}
}

// Ways selects options of the link "ring". An option is "on", "off", or "" for the choice of the
// link, which plans call "auto".
type Ways struct {
	XDP  string `json:"xdp,omitempty"`  // sends through AF_XDP
	Long string `json:"long,omitempty"` // the link carries frames longer than the MTU
	Seal string `json:"seal,omitempty"` // frames are sealed under a key: "on" or ""
}

// Choices of the ways; see ring.Choice.
var Choices = []string{ring.Auto.String(), ring.On.String(), ring.Off.String()}

// String names the ways that are not the link's own choice: "xdp=on/long=off".
func (w Ways) String() (text string) {
	for _, way := range []struct{ name, choice string }{{"xdp", w.XDP}, {"long", w.Long}, {"seal", w.Seal}} {
		if way.choice == "" {
			continue
		}
		if text != "" {
			text += "/"
		}
		text += fmt.Sprintf("%s=%s", way.name, way.choice)
	}
	return text
}

// withWays replaces each case on the link "ring" by one case for each combination of the plan's
// options. The stack raw has no long frames.
func (p *Plan) withWays(cases []Case) []Case {
	var all []Case
	for _, c := range cases {
		if c.Link != "ring" {
			all = append(all, c)
			continue
		}
		for _, c.XDP = range chosen(p.XDP) {
			if c.Stack == "raw" {
				all = append(all, c)
				continue
			}
			for _, c.Long = range chosen(p.Long) {
				all = append(all, p.withSeal(c)...)
			}
		}
	}
	return all
}

// withSeal returns c. For the stack vipl, if the plan has Sealed, it also returns c with sealed
// frames.
func (p *Plan) withSeal(c Case) []Case {
	sealed := c
	if sealed.Seal = "on"; p.Sealed && c.Stack == "vipl" {
		return []Case{c, sealed}
	}
	return []Case{c}
}

// EnvKeyFile is the environment variable that passes the key file for sealed frames to the halves
// that Local starts.
const EnvKeyFile = "BOBNET_PERF_KEY_FILE"

// key returns the source of the key for the case; nil: the environment's key or none.
func (c Case) key() seal.Source {
	if c.Seal == "" {
		return nil
	}
	return seal.File(os.Getenv(EnvKeyFile))
}

// chosen returns those of Choices that are in plan, in the order of Choices, as values of a Case.
func chosen(plan []string) (ways []string) {
	for i, choice := range Choices {
		switch {
		case !slices.Contains(plan, choice):
		case i == 0:
			ways = append(ways, "")
		default:
			ways = append(ways, choice)
		}
	}
	return ways
}

// ringConfig returns the configuration with which to open the link "ring" for c. The stack raw is
// the reference for the others: it uses the plain options, sendmmsg to ring, unless the plan
// specifies others.
func (c Case) ringConfig(iface string) (*ring.Config, error) {
	cfg := &ring.Config{Interface: iface}
	if c.Stack == "raw" {
		cfg.XDP, cfg.Long = ring.Off, ring.Off
	}
	for _, way := range []struct {
		choice string
		option *ring.Choice
	}{{c.XDP, &cfg.XDP}, {c.Long, &cfg.Long}} {
		if way.choice == "" {
			continue
		}
		var err error
		if *way.option, err = ring.ParseChoice(way.choice); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}
