package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newInfoCmd() *cobra.Command {
	var given vipl.Config
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show what Bobnet finds on this machine and which interface it would use",
		Long: `Show the machine, the rights of this process, which rank of which job it would be and
what says so (BOBNET_*, or the variables of a launcher), and the Ethernet interfaces of its
network namespace, with the one that Bobnet would use and why. Then open a NIC
there and show what it has picked: driver, ports, ways and why.`,
		Args: usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return infoJSON(cmd.Context(), cmd.OutOrStdout(), &given)
			}
			if err := printSystem(cmd.OutOrStdout()); err != nil {
				return err
			}
			cfg, err := given.FromEnvironment()
			if err != nil {
				return err
			}
			found, err := printInterfaces(cmd.OutOrStdout(), &cfg)
			if err != nil || !found {
				return err
			}
			return printNIC(cmd.Context(), cmd.OutOrStdout(), cfg)
		},
	}
	nicFlags(cmd, &given)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// printSystem prints what does not depend on an interface.
func printSystem(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"bobnet", version()},
		{"job", ofJob()},
		{"kernel", kernel()},
		{"cores", fmt.Sprintf("%d, of which Go uses %d", runtime.NumCPU(), runtime.GOMAXPROCS(0))},
		{"EtherType", fmt.Sprintf("0x%04X", uint16(ethertype.Default))},
		{"raw sockets", rawSockets()},
		{"labs", labs()},
		{"locked memory", memlock()},
		{"faults", faults()},
	} {
		// A second line of advice continues in the second column.
		fmt.Fprintf(table, "%s\t%s\n", row[0], strings.ReplaceAll(row[1], "\n", "\n\t"))
	}
	return table.Flush()
}

// ofJob says which rank of which job a program would be that is started as this one, and
// what says so.
func ofJob() string {
	p, err := job.FindPlace()
	if p.Others != "" {
		return placed(p, err) + fmt.Sprintf("\nwhich goes before what is set of %s", p.Others)
	}
	return placed(p, err)
}

// placed puts a place into words.
func placed(p job.Place, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case p.Source == "":
		return "alone: " + p.Why
	case p.Size == 0:
		return fmt.Sprintf("rank %d, as the launcher's port will tell: %s (%s)", p.Rank, p.Source, p.Why)
	case p.Job == "":
		return fmt.Sprintf("rank %d of %d: %s (%s)", p.Rank, p.Size, p.Source, p.Why)
	}
	return fmt.Sprintf("rank %d of %d of %q: %s (%s)", p.Rank, p.Size, p.Job, p.Source, p.Why)
}

// kernel returns the kernel's name, release and machine.
func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	text := func(b []byte) string { return unix.ByteSliceToString(b) }
	return text(u.Sysname[:]) + " " + text(u.Release[:]) + " " + text(u.Machine[:])
}

// rawSockets says whether this process may open them, by opening one.
func rawSockets() string {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	switch {
	case err == nil:
		unix.Close(fd)
		return "allowed"
	case errors.Is(err, unix.EPERM):
		return "not allowed: run as root, inside bobnet lab, or with the driver udp, or:\n" + doctor.Setcap()
	}
	return fmt.Sprintf("not available: %v", err)
}

// labs says whether `bobnet lab` would work.
func labs() string {
	if err := lab.Check(); err != nil {
		return err.Error()
	}
	return "allowed"
}

// memlock says how much memory this process may lock.
func memlock() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return err.Error()
	}
	if limit.Cur == unix.RLIM_INFINITY {
		return "no limit"
	}
	return fmt.Sprintf("%d KiB without CAP_IPC_LOCK (more can be registered, unlocked); to raise it: ulimit -l", limit.Cur>>10)
}

// faults says what goes wrong with frames on purpose.
func faults() string {
	opts, err := seam.Faults()
	switch {
	case err != nil:
		return err.Error()
	case opts.Active():
		return fmt.Sprintf("%v: set by %s", opts, vipl.EnvFault)
	}
	return "none"
}

// printInterfaces prints the interfaces and the choice between them, and reports
// whether there is one to open a NIC with.
func printInterfaces(w io.Writer, cfg *vipl.Config) (found bool, err error) {
	list, err := iface.List()
	if err != nil {
		return false, err
	}
	chosen, why, choiceErr := doctor.Choose(cfg)
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "INTERFACE\tSTATE\tMAC\tMTU\tUSED")
	for _, i := range list {
		used := ""
		if choiceErr == nil && i.Index == chosen.Index {
			used = "yes"
		} else if i.Bridge != "" {
			used = "no: port of bridge " + i.Bridge
		}
		fmt.Fprintf(table, "%s\t%s\t%v\t%d\t%s\n", i.Name, i.State, i.MAC, i.MTU, used)
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	fmt.Fprintln(w)
	switch {
	case choiceErr != nil && cfg.Interface != "":
		return false, choiceErr
	case choiceErr != nil:
		fmt.Fprintln(w, "would use none:", choiceErr)
	case chosen == (iface.Interface{}):
		fmt.Fprintf(w, "would use none: %s\n", why)
	default:
		fmt.Fprintf(w, "would use %s: %s\n", chosen.Name, why)
		if chosen.State != iface.Up || chosen.Macvlan != "" {
			fmt.Fprintln(w, "but", iface.Obstacle(chosen.Name))
		}
	}
	return choiceErr == nil, nil
}
