package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

// rate is a flag whose value is a probability, "2%" or "0.02".
func rate(to *float64) *setting[float64] {
	parse := func(text string) (float64, error) {
		p, err := fault.ParseRate(text)
		if err != nil {
			return 0, errors.New("want 0% to 100%, or 0 to 1")
		}
		return p, nil
	}
	return &setting[float64]{to: to, kind: "rate", parse: parse, print: func(p float64) string {
		if p == 0 {
			return ""
		}
		return strconv.FormatFloat(p, 'g', -1, 64)
	}}
}

// faultFlags adds the flags that say what goes wrong with frames.
func faultFlags(cmd *cobra.Command, o *fault.Options) {
	flags := cmd.Flags()
	flags.Var(rate(&o.Drop), "loss", "lose this `part` of the frames: 2% or 0.02")
	flags.Var(rate(&o.Dup), "dup", "deliver this `part` of the frames twice")
	flags.Var(rate(&o.Reorder), "reorder", "let later frames overtake this `part` of them")
	flags.Var(rate(&o.Corrupt), "corrupt", "flip bits in this `part` of the frames")
	flags.Var(period(&o.Delay, 0, 0, time.Hour), "delay", "delay every frame by this `time`, such as 100us")
	flags.Var(period(&o.Jitter, 0, 0, time.Hour), "jitter", "delay each frame by up to this `time` more, by chance")
	flags.Var(seed(&o.Seed, 0), "seed", "seed of the faults; 0 is a new one, which is printed")
}

// checkFaults refuses flags that do not go together.
func checkFaults(cmd *cobra.Command, o *fault.Options) error {
	if !o.Active() && cmd.Flags().Changed("seed") {
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
