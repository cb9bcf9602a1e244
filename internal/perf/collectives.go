package perf

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
)

// The measurement of collectives: the time of a call of each collective of mplite, by size and
// number of ranks, compared with the same call of an MPI library.

// The topologies in which collectives are measured.
const (
	CollPair   = "pair"       // a namespace for each rank: two ranks are joined by a veth pair, more by a bridge
	CollBridge = "bridge"     // a namespace for each rank, always joined by a bridge
	CollCut    = "bridge-cut" // as CollBridge, with the senders' offloads off
	CollHost   = "host"       // one namespace
)

// CollPlan selects the measurements of Collectives. Empty fields mean the defaults.
type CollPlan struct {
	Names      []string // names from CollNames; nil: all
	Topologies []string // nil: CollPair and CollHost
	Ranks      []int    // nil: 2, 4 and 8
	Sizes      []int    // bytes of the vector, or of each rank's part of it; nil: 8 B to 1 MiB
	MTUs       []int    // nil: DefaultMTU
	Rounds     int      // 0: 3
	Sample     time.Duration
}

// CollNames returns the names of the collectives.
func CollNames() (names []string) {
	for _, c := range collectives {
		names = append(names, c.name)
	}
	return names
}

func (p CollPlan) withDefaults() CollPlan {
	fill(&p.Names, CollNames())
	fill(&p.Topologies, []string{CollPair, CollHost})
	fill(&p.Ranks, []int{2, 4, 8})
	fill(&p.Sizes, []int{8, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20})
	fill(&p.MTUs, []int{DefaultMTU})
	if p.Rounds == 0 {
		p.Rounds = curveRounds
	}
	if p.Sample == 0 {
		p.Sample = curveSample
	}
	return p
}

// Validate reports what in the plan cannot be measured. The error wraps ErrPlan.
func (p CollPlan) Validate() error {
	p = p.withDefaults()
	for _, name := range p.Names {
		if !slices.Contains(CollNames(), name) {
			return fmt.Errorf("perf: collective %q %w: want some of %v", name, ErrPlan, CollNames())
		}
	}
	for _, n := range p.Sizes {
		if n < collElem || n > MaxSize || n%collElem != 0 {
			return fmt.Errorf("perf: %d bytes %w: collectives move float64, so the size is a multiple of %d, up to %d", n, ErrPlan, collElem, MaxSize)
		}
	}
	return nil
}

// CollRecord is the result for one collective: one line of `bobnet perf --collectives --json`.
type CollRecord struct {
	Stack      string  `json:"stack"` // "mplite", "mpich" or "openmpi"
	Collective string  `json:"collective"`
	Mode       string  `json:"mode"` // CollLoop or CollApart
	Topology   string  `json:"topology"`
	Ranks      int     `json:"ranks"`
	MTU        int     `json:"mtu"`
	Size       int     `json:"size"`            // bytes of the vector, or of each rank's part of it
	Micros     float64 `json:"us"`              // microseconds of a call, median of the rounds
	Rounds     int     `json:"rounds"`          // number of rounds
	Ratio      float64 `json:"ratio,omitempty"` // only of mplite: its time divided by the MPI library's time
}

// same reports whether r and o measure the same call. Their stacks may differ.
func (r CollRecord) same(o CollRecord) bool {
	return r.Collective == o.Collective && r.Size == o.Size && r.sameGroup(o)
}

func (r CollRecord) sameGroup(o CollRecord) bool {
	return r.Mode == o.Mode && r.Topology == o.Topology && r.Ranks == o.Ranks && r.MTU == o.MTU
}

// group returns the title of the table for r: "4 ranks, bridge, MTU 1500, loop".
func (r CollRecord) group() string {
	return fmt.Sprintf("%d ranks, %s, MTU %d, %s", r.Ranks, r.Topology, r.MTU, r.Mode)
}

// CollConfig configures how Collectives runs the ranks.
type CollConfig struct {
	// Rank is a command line of this program that joins the job and calls RunCollectives with the
	// arguments that follow.
	Rank []string
	// MPI is the program that BuildMPI has made; nil leaves the comparison out.
	MPI *MPI
	// Lab, if not nil, is called with each lab. It returns a function that is called at the lab's
	// end.
	Lab      func(l *lab.Lab) (done func())
	Progress func(done, total int, what string) // may be nil
	Stderr   io.Writer                          // of the ranks
	Log      *slog.Logger                       // nil = slog.Default()
}

// collPatience is the time limit of one run of all ranks.
const collPatience = 10 * time.Minute

var errCollTime = fmt.Errorf("perf: the ranks have not finished after %v (measure fewer --sizes or --ranks)", collPatience)

// collRun is what one start of a stack's ranks measures: all collectives and sizes.
type collRun struct {
	records []CollRecord // without times
	times   [][]float64  // times of each record, by round
	cfg     lab.Config
	mpi     bool
}

// Collectives measures plan. The stacks take turns: in each round each number of ranks is started
// once for each stack. Records come with the error if some runs have failed.
func Collectives(ctx context.Context, plan CollPlan, cfg CollConfig) ([]CollRecord, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	plan = plan.withDefaults()
	runs := plan.runs(cfg)
	var failures []error
	for i := range plan.Rounds * len(runs) {
		r := runs[i%len(runs)]
		if err := r.measure(ctx, plan, cfg); err != nil {
			if ctx.Err() != nil {
				return collMedians(runs), context.Cause(ctx)
			}
			failures = append(failures, fmt.Errorf("%s, %s: %w", r.records[0].Stack, r.records[0].group(), err))
		}
		if cfg.Progress != nil {
			cfg.Progress(i+1, plan.Rounds*len(runs), fmt.Sprintf("%s, %d ranks, %s", r.records[0].Stack, r.records[0].Ranks, r.records[0].Topology))
		}
	}
	return collMedians(runs), errors.Join(failures...)
}

// runs returns the runs of a round.
func (p CollPlan) runs(cfg CollConfig) (runs []*collRun) {
	for _, topology := range p.Topologies {
		for _, ranks := range p.Ranks {
			for _, mtu := range p.MTUs {
				runs = append(runs, p.run(topology, ranks, mtu, nil))
				if cfg.MPI != nil {
					runs = append(runs, p.run(topology, ranks, mtu, cfg.MPI))
				}
			}
		}
	}
	return runs
}

func (p CollPlan) run(topology string, ranks, mtu int, mpi *MPI) *collRun {
	r := &collRun{cfg: lab.Config{N: ranks, MTU: mtu}, mpi: mpi != nil}
	switch {
	case topology == CollHost:
		r.cfg.PerHost = ranks
	case topology != CollPair:
		r.cfg.Topology, r.cfg.Segment = lab.Bridge, topology == CollCut
	case ranks != 2:
		topology = CollBridge
	}
	stack := "mplite"
	if mpi != nil {
		stack = mpi.Stack()
	}
	for _, s := range collCells(p.Names, p.Sizes) {
		r.records = append(r.records, CollRecord{Stack: stack, Collective: s.Collective, Mode: s.Mode, Topology: topology, Ranks: ranks, MTU: mtu, Size: s.Size})
	}
	r.times = make([][]float64, len(r.records))
	return r
}

// measure starts the ranks once, and adds the times that rank 0 prints to r.
func (r *collRun) measure(ctx context.Context, plan CollPlan, cfg CollConfig) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, collPatience, errCollTime)
	defer cancel()
	lc := r.cfg
	lc.Log = cfg.Log
	l, err := lab.New(ctx, lc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if cfg.Lab != nil {
		defer cfg.Lab(l)()
	}
	args := collArgs(plan.Sample, plan.Names, plan.Sizes)
	var out bytes.Buffer
	if r.mpi {
		err = cfg.MPI.run(ctx, l, args, &out, cfg.Stderr)
	} else {
		err = l.Run(ctx, slices.Concat(cfg.Rank, args), lab.RunOptions{Stdout: &out, Stderr: cfg.Stderr})
	}
	if err != nil {
		return err
	}
	return r.read(&out)
}

// read reads the output of rank 0: a sample for each record, in order.
func (r *collRun) read(out io.Reader) error {
	dec := json.NewDecoder(out)
	times := make([]float64, len(r.records))
	for i, want := range r.records {
		var s collSample
		if err := dec.Decode(&s); err != nil {
			return fmt.Errorf("perf: read sample %d of %d of rank 0: %w", i+1, len(r.records), err)
		}
		if s.Collective != want.Collective || s.Mode != want.Mode || s.Size != want.Size {
			return fmt.Errorf("perf: rank 0 measured %s of %d bytes, %s, instead of %s of %d bytes, %s", s.Collective, s.Size, s.Mode, want.Collective, want.Size, want.Mode)
		}
		times[i] = s.Micros
	}
	for i, t := range times {
		r.times[i] = append(r.times[i], t)
	}
	return nil
}

// collMedians returns the records of all measured calls. Records of mplite have the ratio.
func collMedians(runs []*collRun) (records []CollRecord) {
	for _, r := range runs {
		for i, rec := range r.records {
			times := slices.Sorted(slices.Values(r.times[i]))
			if len(times) == 0 {
				continue
			}
			rec.Micros, rec.Rounds = times[len(times)/2], len(times)
			records = append(records, rec)
		}
	}
	for i, r := range records {
		if base := collBase(records, r); base != nil && base.Micros > 0 {
			records[i].Ratio = r.Micros / base.Micros
		}
	}
	return records
}

// collBase returns the record with which r, a record of mplite, is compared, or nil.
func collBase(records []CollRecord, r CollRecord) *CollRecord {
	if r.Stack != "mplite" {
		return nil
	}
	for i := range records {
		if o := &records[i]; o.Stack != r.Stack && o.same(r) {
			return o
		}
	}
	return nil
}

// WriteCollectives prints the records as tables, one for each number of ranks, topology and mode. A
// table has a row for each collective and a column for each size. If an MPI library was measured,
// the tables have the ratios, and a list of the calls in which the library is faster follows, the
// worst ratio first.
func WriteCollectives(w io.Writer, records []CollRecord) error {
	own := slices.DeleteFunc(slices.Clone(records), func(r CollRecord) bool { return r.Stack != "mplite" })
	compared := slices.ContainsFunc(own, func(r CollRecord) bool { return r.Ratio > 0 })
	for _, group := range collGroups(own) {
		if err := writeCollTable(w, group, compared); err != nil {
			return err
		}
	}
	if !compared {
		return nil
	}
	return writeCollWorst(w, own, records)
}

// collGroups divides the records into tables.
func collGroups(records []CollRecord) (groups [][]CollRecord) {
	for _, r := range records {
		i := slices.IndexFunc(groups, func(g []CollRecord) bool { return g[0].sameGroup(r) })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

func writeCollTable(w io.Writer, group []CollRecord, compared bool) error {
	fmt.Fprintf(w, "%s: us of a call", group[0].group())
	if compared {
		fmt.Fprintf(w, ", and the ratio (geometric mean %.2f)", collMean(group))
	}
	fmt.Fprintln(w)
	var sizes []int
	var names []string
	for _, r := range group {
		if r.Collective != collBarrier && !slices.Contains(sizes, r.Size) {
			sizes = append(sizes, r.Size)
		}
		if !slices.Contains(names, r.Collective) {
			names = append(names, r.Collective)
		}
	}
	if len(sizes) == 0 {
		sizes = []int{0}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "collective\t")
	for _, size := range sizes {
		fmt.Fprintf(tw, "%s\t", byteCount(size))
		if compared {
			fmt.Fprint(tw, "\t")
		}
	}
	fmt.Fprintln(tw)
	for _, name := range names {
		fmt.Fprintf(tw, "%s\t", name)
		for i, size := range sizes {
			fmt.Fprint(tw, collCell(group, name, size, i == 0, compared))
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// collCell returns the cells of one call. A barrier has no size, so it is in the first column.
func collCell(group []CollRecord, name string, size int, first, compared bool) string {
	i := slices.IndexFunc(group, func(r CollRecord) bool {
		return r.Collective == name && (r.Size == size || name == collBarrier && first)
	})
	text := "-\t"
	ratio := "\t"
	if i >= 0 {
		text = fmt.Sprintf("%.1f\t", group[i].Micros)
		if ratio = "-\t"; group[i].Ratio > 0 {
			ratio = fmt.Sprintf("%.2f\t", group[i].Ratio)
		}
	}
	if !compared {
		return text
	}
	return text + ratio
}

// collMean returns the geometric mean of the ratios.
func collMean(records []CollRecord) float64 {
	sum, n := 0.0, 0
	for _, r := range records {
		if r.Ratio > 0 {
			sum += math.Log(r.Ratio)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return math.Exp(sum / float64(n))
}

// collWorst is the maximum number of calls in the list.
const collWorst = 30

// writeCollWorst lists the calls in which the MPI library is faster.
func writeCollWorst(w io.Writer, own, all []CollRecord) error {
	compared := 0
	for _, r := range own {
		if r.Ratio > 0 {
			compared++
		}
	}
	worst := slices.DeleteFunc(slices.Clone(own), func(r CollRecord) bool { return r.Ratio <= 1 })
	slices.SortStableFunc(worst, func(a, b CollRecord) int { return cmp.Compare(b.Ratio, a.Ratio) })
	name := collBase(all, own[slices.IndexFunc(own, func(r CollRecord) bool { return r.Ratio > 0 })]).Stack
	fmt.Fprintf(w, "%s is ahead in %d of %d calls; geometric mean of all ratios %.2f\n", name, len(worst), compared, collMean(own))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range worst[:min(len(worst), collWorst)] {
		fmt.Fprintf(tw, "  %.2f\t%s\t%s\t%s\t%.1f us\t%.1f us\n", r.Ratio, r.Collective, byteCount(r.Size), r.group(), r.Micros, r.Micros/r.Ratio)
	}
	if n := len(worst) - collWorst; n > 0 {
		fmt.Fprintf(tw, "  and %d more\n", n)
	}
	return tw.Flush()
}
