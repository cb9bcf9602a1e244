package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/spf13/cobra"
)

const labCuts = `With --flap, --partition and --mtu-drop links fail while CMD runs, and come back.
Each is given as WHAT@START+DURATION, times counted from the start of the job;
without @START it begins there, without +DURATION it lasts to the end. Ranks are
listed as 0,2-4. Each flag may be given several times, and what is under way at a
time holds together. Begin and end are told on standard error.

  --flap 1@3s+500ms          bob0 of rank 1 has no carrier, as if unplugged
  --partition 0,1/2,3@3s+5s  ranks 0 and 1 reach each other, and so do 2 and 3, but
                             no others, and nobody is told; ranks that are not
                             named are one more group: --partition 2 parts rank 2
  --mtu-drop 1500@3s+5s      frames beyond an MTU of 1500 are lost on the way
                             between any two ranks, without a word

The ranks are joined by a bridge then, where no frame is longer than the MTU.`

// cutFlag is a flag that adds what it is given to a list of cuts.
type cutFlag struct {
	kind lab.Kind
	cuts *[]lab.Cut
}

func (f cutFlag) String() string {
	var texts []string
	for _, c := range *f.cuts {
		if c.Kind == f.kind {
			texts = append(texts, c.String())
		}
	}
	return strings.Join(texts, " ")
}

func (f cutFlag) Set(text string) error {
	c, err := lab.ParseCut(f.kind, text)
	if err == nil {
		*f.cuts = append(*f.cuts, c)
	}
	return bare(err, fmt.Sprintf("lab: %v %q: ", f.kind, text))
}

func (cutFlag) Type() string { return "cut" }
func (cutFlag) hints() hint  { return hint{} }

// cutFlags adds the flags that say how links fail.
func cutFlags(cmd *cobra.Command, cuts *[]lab.Cut) {
	for _, f := range []struct {
		kind lab.Kind
		text string
	}{
		{lab.Flap, "take the carrier of some ranks' `links` away for a while: 1@3s+500ms"},
		{lab.Partition, "keep `groups` of ranks apart for a while: 0,1/2,3@3s+5s"},
		{lab.MTUDrop, "lose frames beyond this `MTU` on the way for a while: 1500@3s+5s"},
	} {
		cmd.Flags().Var(cutFlag{f.kind, cuts}, f.kind.String(), f.text)
	}
}

// sayCut returns what tells w of a cut.
func sayCut(w io.Writer) func(c lab.Cut, begun bool) {
	return func(c lab.Cut, begun bool) {
		what := "ends"
		if begun {
			what = "begins"
		}
		fmt.Fprintf(w, "bobnet: %v %v %s\n", c.Kind, c, what)
	}
}
