package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"

	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

// rate is a flag whose value is a probability, "2%" or "0.02".
type rate struct{ p *float64 }

func (r rate) String() string {
	if r.p == nil {
		return "0" // of the zero value, to which pflag compares defaults
	}
	return strconv.FormatFloat(*r.p, 'g', -1, 64)
}

func (r rate) Set(text string) (err error) {
	*r.p, err = fault.ParseRate(text)
	return err
}

func (rate) Type() string { return "rate" }

// faultFlags adds the flags that say what goes wrong with frames.
func faultFlags(cmd *cobra.Command, o *fault.Options) {
	flags := cmd.Flags()
	flags.Var(rate{&o.Drop}, "loss", "lose this `part` of the frames: 2% or 0.02")
	flags.Var(rate{&o.Dup}, "dup", "deliver this `part` of the frames twice")
	flags.Var(rate{&o.Reorder}, "reorder", "let later frames overtake this `part` of them")
	flags.Var(rate{&o.Corrupt}, "corrupt", "flip bits in this `part` of the frames")
	flags.DurationVar(&o.Delay, "delay", 0, "delay every frame by this `time`, such as 100us")
	flags.DurationVar(&o.Jitter, "jitter", 0, "delay each frame by up to this `time` more, by chance")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of the faults; 0 is a new one, which is printed")
}

// checkFaults refuses flags that do not go together.
func checkFaults(cmd *cobra.Command, o *fault.Options) error {
	switch {
	case o.Delay < 0 || o.Jitter < 0:
		return fmt.Errorf("lab: a delay of %v and a jitter of %v: neither may be negative", o.Delay, o.Jitter)
	case !o.Active() && cmd.Flags().Changed("seed"):
		return errors.New("lab: --seed has no meaning without faults: add --loss, --dup, --reorder, --corrupt, --delay or --jitter")
	}
	return nil
}

// faultEnv returns what brings the faults to every program in the lab, and
// tells w how to have the same ones again. Without faults it does neither.
func faultEnv(o fault.Options, w io.Writer) []string {
	if !o.Active() {
		return nil
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	fmt.Fprintf(w, "bobnet: faults on the frames of every rank: %v; the same ones again: --seed %d\n", o, o.Seed)
	return []string{vipl.EnvFault + "=" + o.String()}
}
