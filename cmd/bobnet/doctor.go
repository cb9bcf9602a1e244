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

const doctorLong = `Diagnose this machine and its segment. Doctor checks permissions, the interface with
its state and MTU, memory, offloads of the network card, and processors. It also
lists the Bobnet programs that answer on the segment, with the round-trip time of
short and of full frames to each.

Each finding has a level (ok, note, warn, fail). Findings other than ok explain the
problem and print a command that fixes it or shows more. The exit code is 1 if any
finding has the level fail.

With --hosts or --host, doctor checks these hosts as bobnet run would: each answers, runs the
same version, has a usable interface like that of the others, and a clock that agrees. Then
the hosts exchange short frames and frames of the MTU's length. A matrix shows, for each pair
of hosts, the round-trip time and the MTU that passes:

  !      this MTU is smaller than the MTU of the interfaces
  none   no frame came back
  lost   frames leave one host, and something on the path drops them
  +long  frames beyond the MTU pass, as between virtual interfaces and across bridges
  +cut   such frames pass in segments, which the receiving host joins

Doctor also names nftables rules that drop Bobnet's frames, here and on the hosts (families
netdev and bridge; reading them needs CAP_NET_ADMIN).`

// errUnwell is the error of doctor if a finding has the level fail.
var errUnwell = errors.New("doctor: problems found (see the lines marked fail)")

func newDoctorCmd() *cobra.Command {
	var (
		given  vipl.Config
		where  hostFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "doctor [-i IFACE] [--driver DRIVER] [--hosts FILE] [--json]",
		Short:   "Diagnose this machine and print a fix for each problem",
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
			if cmd.Context().Err() != nil { // an interrupted check is not a finding
				return context.Cause(cmd.Context())
			}
			return report(cmd.OutOrStdout(), doctor.Judge(facts), asJSON)
		},
	}
	f := cmd.Flags()
	nicFlags(cmd, &given)
	where.register(cmd)
	f.BoolVar(&asJSON, "json", false, "print one JSON object per finding")
	return cmd
}

// report prints findings. It returns errUnwell if one of them has the level fail.
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
