package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newInfoCmd() *cobra.Command {
	var given vipl.Config
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show this machine and the interface that Bobnet would use",
		Long: `Show what Bobnet finds on this machine:

  - the kernel, and the permissions of this process
  - the job and rank of a program started here, and the variables that set them
    (BOBNET_*, or those of a launcher)
  - the Ethernet interfaces of this network namespace, and which one Bobnet would use
  - the driver, ports and paths of a NIC on that interface, with the reasons`,
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

// printSystem prints the properties that do not depend on an interface.
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

// ofJob returns the rank and job of a program in this environment, and the variables that set them.
func ofJob() string {
	p, err := job.FindPlace()
	if p.Others != "" {
		return placed(p, err) + fmt.Sprintf("\ntakes precedence over the variables of %s", p.Others)
	}
	return placed(p, err)
}

// placed describes a place.
func placed(p job.Place, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case p.Source == "":
		return "alone: " + p.Why
	case p.Size == 0:
		return fmt.Sprintf("rank %d, size from the launcher's port: %s (%s)", p.Rank, p.Source, p.Why)
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

// rawSockets reports whether this process may open raw sockets, by opening one.
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

// labs reports whether `bobnet lab` would work.
func labs() string {
	if err := lab.Check(); err != nil {
		return err.Error()
	}
	return "allowed"
}

// memlock reports how much memory this process may lock.
func memlock() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return err.Error()
	}
	if limit.Cur == unix.RLIM_INFINITY {
		return "no limit"
	}
	return fmt.Sprintf("%d KiB without CAP_IPC_LOCK (memory beyond that is registered without lock; to raise it: ulimit -l)", limit.Cur>>10)
}

// faults describes the faults that are injected into frames.
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

// printInterfaces prints the interfaces and the chosen one, and reports whether a NIC can be
// opened.
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

// printNIC opens a NIC on the interface that Bobnet would use, and prints its choices and their
// reasons. It prints the error if the NIC cannot be opened.
func printNIC(ctx context.Context, w io.Writer, cfg vipl.Config) error {
	cfg.NoService = true
	nic, err := vipl.Open(ctx, &cfg)
	if err != nil {
		fmt.Fprintf(w, "cannot open a NIC: %v\n", err)
		return nil
	}
	defer nic.Close()
	info := seam.Link(nic).Info()
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"NIC", nic.Addr().String()},
		{"driver", driver(info.Driver)},
		{"ports", fmt.Sprintf("%d to %d: the first free block on %s", info.Ports.Lo, info.Ports.Hi, info.Interface)},
		{"frames", fmt.Sprintf("up to %d bytes of data (MTU %d)", info.MTU-ethertype.BaseSize, info.MTU)},
		{"receive queue", fmt.Sprintf("%d frames", info.Slots)},
		{"long frames", long(seam.Link(nic))},
		{"this host", thisHost(seam.Link(nic))},
	} {
		fmt.Fprintf(table, "%s\t%s\n", row[0], row[1])
	}
	return table.Flush()
}

// driver explains the parts of a driver's name.
func driver(name string) string {
	parts := strings.Split(name, "+")
	has := func(part string) bool { return slices.Contains(parts, part) }
	var why []string
	if has("fault") {
		why = append(why, "injected faults, from "+vipl.EnvFault)
	}
	if has("seal") {
		why = append(why, "frames to other hosts are encrypted")
	}
	if has("ring") {
		why = append(why, "mapped AF_PACKET receive ring, batched sends: the default")
		switch {
		case has("agent"):
			why = append(why, "sockets from the agent at "+agent.Path())
		case has("xdp"):
			why = append(why, "frames up to 4096 bytes are sent through AF_XDP if that was faster in a measurement just now")
		default:
			why = append(why, "no AF_XDP: unavailable, or not faster in a measurement just now")
		}
	}
	if has("udp") {
		why = append(why, "UDP datagrams, which need no privilege and can cross routers")
	}
	if has("packet") {
		why = append(why, "a plain packet socket, with a system call for each frame")
	}
	if has("shm") {
		why = append(why, "shared memory, this host only")
	}
	if has("myrinet") {
		why = append(why, "the card of an emulated Myrinet, at one end of a cable")
	}
	if has("host") {
		why = append(why, "shared memory to other programs of this host")
	}
	return name + ": " + strings.Join(why, "; ")
}

func long(link transport.Link) string {
	if l, ok := link.(transport.LongLink); ok && !l.Info().Unprotected && l.StartLong() {
		return fmt.Sprintf("up to an MTU of %d, to stations connected by virtual interfaces and bridges only", optional.LongMTU(link))
	}
	return "none"
}

func thisHost(link transport.Link) string {
	if l, ok := link.(optional.Local); ok {
		return fmt.Sprintf("through shared memory, frames up to an MTU of %d", l.LocalMTU())
	}
	return "unreachable: an interface does not loop frames back"
}

// infoReport is the output of bobnet info --json.
type infoReport struct {
	Build      build           `json:"build"`
	Kernel     string          `json:"kernel"`
	Cores      int             `json:"cores"`
	UsedCores  int             `json:"used_cores"` // by Go
	EtherType  string          `json:"ethertype"`
	RawSockets string          `json:"raw_sockets"` // allowed, or why not
	Labs       string          `json:"labs"`        // allowed, or why not
	Memlock    string          `json:"locked_memory"`
	Faults     string          `json:"faults"`
	Job        infoJob         `json:"job"`
	Interfaces []infoInterface `json:"interfaces"`
	Why        string          `json:"why"`           // reason for the used interface, or for none
	NIC        *infoNIC        `json:"nic,omitempty"` // the opened NIC
	Error      string          `json:"error,omitempty"`
}

// infoJob is the place in a job that the environment gives a program.
type infoJob struct {
	Rank   int    `json:"rank"`
	Size   int    `json:"size"` // 0: known only through the launcher's port
	Name   string `json:"name,omitempty"`
	Source string `json:"source,omitempty"` // "" for a program without a job
	Why    string `json:"why,omitempty"`
	Error  string `json:"error,omitempty"`
}

// infoInterface is an Ethernet interface.
type infoInterface struct {
	Name   string      `json:"name"`
	State  iface.State `json:"state"`
	MAC    string      `json:"mac"`
	MTU    int         `json:"mtu"`
	Bridge string      `json:"bridge,omitempty"`
	Used   bool        `json:"used"`
}

// infoNIC describes an opened NIC.
type infoNIC struct {
	Address   string `json:"address"`
	Driver    string `json:"driver"`
	FirstPort uint16 `json:"first_port"`
	LastPort  uint16 `json:"last_port"`
	MTU       int    `json:"mtu"`
	Slots     int    `json:"receive_slots"`
}

// infoJSON prints the output of bobnet info as one JSON object.
func infoJSON(ctx context.Context, w io.Writer, given *vipl.Config) error {
	r := infoReport{Build: thisBuild(), Kernel: kernel(), Cores: runtime.NumCPU(), UsedCores: runtime.GOMAXPROCS(0),
		EtherType: fmt.Sprintf("0x%04X", uint16(ethertype.Default)), RawSockets: rawSockets(), Labs: labs(), Memlock: memlock(),
		Faults: faults(), Interfaces: []infoInterface{}}
	place, err := job.FindPlace()
	r.Job = infoJob{Rank: place.Rank, Size: place.Size, Name: place.Job, Source: place.Source, Why: place.Why}
	if err != nil {
		r.Job.Error = err.Error()
	}
	cfg, err := given.FromEnvironment()
	if err != nil {
		return err
	}
	chosen, why, choiceErr := doctor.Choose(&cfg)
	list, err := iface.List()
	if err != nil {
		return err
	}
	for _, i := range list {
		r.Interfaces = append(r.Interfaces, infoInterface{i.Name, i.State, i.MAC.String(), i.MTU, i.Bridge, choiceErr == nil && i.Index == chosen.Index})
	}
	if r.Why = why; choiceErr != nil {
		r.Error = choiceErr.Error()
	} else if r.NIC, err = openedNIC(ctx, cfg); err != nil {
		r.Error = err.Error()
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return err
	}
	if cfg.Interface != "" { // an unusable interface that the user named is a failure, as in text output
		return choiceErr
	}
	return nil
}

// openedNIC opens a NIC, closes it and returns its description.
func openedNIC(ctx context.Context, cfg vipl.Config) (*infoNIC, error) {
	cfg.NoService = true
	nic, err := vipl.Open(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	defer nic.Close()
	info := seam.Link(nic).Info()
	return &infoNIC{nic.Addr().String(), info.Driver, info.Ports.Lo, info.Ports.Hi, info.MTU, info.Slots}, nil
}
