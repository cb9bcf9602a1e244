package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

const doctorLong = `Look for what keeps Bobnet from working, or from working well, on this machine
and its segment: rights, the interface with its state and MTU, memory, what the
network card does, processors, and the Bobnet programs that answer on the
segment, with the time of short frames and of full ones to each and back.

Each finding has a level (ok, note, warn, fail), and where it is not ok says what
it means and gives the command that changes it, or shows more. The exit code is 1
when something fails.

With --hosts or --host it asks each of these what bobnet run would want to know: that it
answers, has the same version, an interface that can be used, the same as the others have,
and a clock that agrees. Then the hosts send frames to each other, short ones and such as
are as long as the MTU, and a matrix shows the round trip between each two and the MTU that
passes: "!" marks one that is less than the interfaces have, "none" that no frame came back,
"lost" that frames leave and something between the hosts drops them, "+long" that frames beyond
the MTU pass, as between the ends of a veth pair.

Rules of nftables that drop Bobnet's frames are named, here and on the hosts (families
netdev and bridge; reading them takes CAP_NET_ADMIN).`

// errUnwell is what doctor ends with when something does not work.
var errUnwell = errors.New("doctor: something does not work: see the lines with fail")

func newDoctorCmd() *cobra.Command {
	var (
		given  vipl.Config
		where  hostFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "doctor [-i IFACE] [--driver DRIVER] [--hosts FILE] [--json]",
		Short:   "Find what keeps Bobnet from working well here, and how to change it",
		Long:    doctorLong,
		Example: "  bobnet doctor\n  bobnet doctor -i eth0 --json\n  bobnet doctor --hosts hosts.txt\n  bobnet lab -n 1 -- bobnet doctor",
		Args:    usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := given.FromEnvironment()
			if err != nil {
				return err
			}
			if where.list != "" || where.file != "" {
				where.key = cmd.Flags().Lookup("key").Value.String()
				return survey(cmd.Context(), cmd.OutOrStdout(), &where, cfg, asJSON)
			}
			facts := doctor.Collect(cmd.Context(), &cfg)
			if cmd.Context().Err() != nil { // what it has not asked is no finding
				return context.Cause(cmd.Context())
			}
			return report(cmd.OutOrStdout(), doctor.Judge(facts), asJSON)
		},
	}
	f := cmd.Flags()
	nicFlags(cmd, &given)
	where.add(cmd)
	f.BoolVar(&asJSON, "json", false, "print one JSON object per finding")
	return cmd
}

// report prints findings, and returns errUnwell if one of them is that something fails.
func report(w io.Writer, findings []doctor.Finding, asJSON bool) error {
	if err := writeFindings(w, findings, asJSON); err != nil {
		return err
	}
	if doctor.Worst(findings) == doctor.Fail {
		return errUnwell
	}
	return nil
}

func writeFindings(w io.Writer, findings []doctor.Finding, asJSON bool) error {
	if !asJSON {
		return doctor.Write(w, findings)
	}
	enc := json.NewEncoder(w)
	for _, f := range findings {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	return nil
}
