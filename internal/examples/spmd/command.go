package spmd

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/signal"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/internal/examples/report"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/splitc"
)

// Command is the command of an application: the flags that all applications have, and this
// process's place among the ranks. Either World or Comm is set.
type Command struct {
	Check  bool // compare the result
	Serial bool // also run on one process
	World  *splitc.World
	Comm   *mplite.Comm

	json      bool
	mplite    bool
	card      bool
	addr      *string
	collector *metrics.Collector
	forget    func() // ends the watch over World
	cleanups  []func()
}

// Flags defines the flags that all applications have. If twin is set, the application also runs
// over MPLite, and has the flag -mplite.
func Flags(twin bool) *Command {
	c := &Command{addr: program.MetricsFlag()}
	flag.BoolVar(&c.Check, "check", false, "compare the result with the correct one on rank 0 after the run")
	flag.BoolVar(&c.Serial, "serial", false, "afterwards also run on one process, and report the speed-up")
	flag.BoolVar(&c.json, "json", false, "report by one line of JSON")
	flag.BoolVar(&c.card, "card", false, "use the interface as the end of a cable of an emulated Myrinet, too, and have its card carry the active messages; layers am and shm")
	if twin {
		flag.BoolVar(&c.mplite, "mplite", false, "run the variant of the program that sends messages over MPLite")
	}
	return c
}

// Main parses the flags, calls check, which rejects inconsistent flags, starts the rank, and calls
// run, which computes, calls End, and prints the report. An error ends the process.
func (c *Command) Main(about program.About, check func() error, run func(ctx context.Context) error) {
	about.Main(func() error {
		if c.card && c.mplite {
			return errors.New("-card and -mplite: MPLite uses no card, leave one of them out")
		}
		return check()
	}, func(ctx context.Context) error { return c.run(ctx, run) })
}

func (c *Command) run(ctx context.Context, run func(ctx context.Context) error) (err error) {
	defer func() {
		for _, f := range c.cleanups {
			f()
		}
	}()
	if err := c.joinJob(ctx); err != nil {
		return err
	}
	return c.work(ctx, run)
}

// work makes the rank observable by metrics, and calls run. If run fails, the other ranks get the
// cause.
func (c *Command) work(ctx context.Context, run func(ctx context.Context) error) error {
	stop, err := c.collector.Instrument(*c.addr)
	if err == nil {
		defer stop()
		err = run(ctx)
	}
	if err != nil && c.World != nil {
		c.World.Fail(err)
	}
	return err
}

// joinJob makes this process a rank.
func (c *Command) joinJob(ctx context.Context) (err error) {
	c.collector = metrics.NewCollector(nil)
	if c.mplite {
		if c.Comm, err = mplite.Init(ctx, nil); err != nil {
			return err
		}
		c.collector.WatchRank(c.Comm)
	} else {
		cfg, err := c.config(ctx)
		if err != nil {
			return err
		}
		if c.World, err = splitc.Start(ctx, cfg); err != nil {
			return err
		}
		if nic := c.World.NIC(); nic != nil {
			c.collector.WatchNIC(nic)
		}
		c.forget = c.collector.WatchWorld(c.World)
	}
	return nil
}

// config returns the configuration that is not in the environment: the card, with -card.
func (c *Command) config(ctx context.Context) (*splitc.Config, error) {
	if !c.card {
		return nil, nil
	}
	card, err := lanai.Open(ctx, &lanai.Config{Interface: os.Getenv("BOBNET_IFACE")})
	if err != nil {
		return nil, err
	}
	c.cleanups = append(c.cleanups, func() { card.Close() })
	c.collector.WatchEndpointCard(card)
	return &splitc.Config{Card: card}, nil
}

// Rank is this process's number.
func (c *Command) Rank() int {
	if c.Comm != nil {
		return c.Comm.Rank()
	}
	return c.World.MyProc()
}

// End ends this process's membership in the job. The other ranks then end, and rank 0 may continue
// alone.
func (c *Command) End(ctx context.Context) error {
	defer signal.Reset(os.Interrupt) // no rank waits for this one any more, so an interrupt may end it at once
	if c.Comm != nil {
		return c.Comm.Finalize(ctx)
	}
	c.forget()
	return c.World.Exit(ctx)
}

// Print writes the report to standard output.
func (c *Command) Print(r *report.Report) error {
	if c.json {
		return r.JSON(program.Stdout)
	}
	return r.Text(program.Stdout)
}
