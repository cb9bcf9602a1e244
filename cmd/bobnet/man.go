package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newManCmd returns the hidden verb that writes the man pages, for packages of distributions.
func newManCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write a man page for each verb into a folder",
		Hidden: true,
		Args:   usage(oneFolder),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return usageError{err}
			}
			return writePages(cmd.Root(), date, args[0])
		},
	}
}

// writePages writes the man pages of a command and of its verbs into a folder.
func writePages(cmd *cobra.Command, date time.Time, dir string) error {
	if err := userfile.Write(filepath.Join(dir, pageName(cmd)+".1"), manPage(cmd, date), 0o644); err != nil {
		return err
	}
	for _, verb := range cmd.Commands() {
		if verb.Hidden || verb.Name() == "help" || verb.Name() == "completion" {
			continue
		}
		if err := writePages(verb, date, dir); err != nil {
			return err
		}
	}
	return nil
}

func oneFolder(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("man: want one folder, found %d", len(args))
	}
	if err := existing(args[0]); err != nil {
		return fmt.Errorf("man %s: %w", shown(args[0]), err)
	}
	return nil
}

// sourceDate parses a date in seconds since 1970. It returns the current time for "".
func sourceDate(seconds string) (time.Time, error) {
	if seconds == "" {
		return time.Now(), nil
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: want seconds since 1970, not %q", seconds)
	}
	return time.Unix(n, 0).UTC(), nil
}

// manPage returns the man page of a command, in the macros of man(7).
func manPage(cmd *cobra.Command, date time.Time) []byte {
	p := &manText{}
	p.line(".TH %q 1 %q Bobnet Bobnet", strings.ToUpper(pageName(cmd)), date.Format("2006-01-02"))
	p.section("NAME")
	p.line("%s \\- %s", roff(pageName(cmd)), roff(cmd.Short))
	p.section("SYNOPSIS")
	p.line(".B %s", roff(strings.Replace(cmd.UseLine(), "bobnet [flags]", "bobnet VERB [flags]", 1)))
	p.section("DESCRIPTION")
	p.text(longOf(cmd))
	p.verbs(cmd)
	p.flags("OPTIONS", cmd.NonInheritedFlags())
	p.flags("OPTIONS OF EVERY VERB", cmd.InheritedFlags())
	p.list("EXIT STATUS", exitStatus(cmd))
	p.list("ENVIRONMENT", environmentOf(cmd))
	p.list("FILES", filesOf(cmd))
	if cmd.Example != "" {
		p.section("EXAMPLES")
		p.text(cmd.Example)
	}
	p.seeAlso(cmd)
	return p.Bytes()
}

// pageName returns the name of a command's man page: bobnet-perf.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func longOf(cmd *cobra.Command) string {
	if cmd.Long != "" {
		return cmd.Long
	}
	return cmd.Short + "."
}

// manText is a man page that is being written.
type manText struct{ bytes.Buffer }

func (p *manText) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *manText) section(name string) { p.line(".SH %s", name) }

// roff escapes text so that man prints it unchanged.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", "").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// text writes paragraphs. It keeps the layout of indented lines.
func (p *manText) text(text string) {
	fixed := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n ")
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		if indented != fixed && line != "" {
			p.line("%s", map[bool]string{true: ".PP\n.nf", false: ".fi\n.PP"}[indented])
			fixed = indented
		}
		switch {
		case line != "":
			p.line("%s", roff(strings.ReplaceAll(line, "\t", "    ")))
		case fixed:
			p.line("")
		default:
			p.line(".PP")
		}
	}
	if fixed {
		p.line(".fi")
	}
}

// entry is an item of a list with its description.
type entry struct{ name, text string }

// list writes a section with the entries. It writes nothing if there are none.
func (p *manText) list(section string, entries []entry) {
	if len(entries) == 0 {
		return
	}
	p.section(section)
	for _, e := range entries {
		p.line(".TP\n.B %s\n%s", roff(e.name), roff(e.text))
	}
}

// verbs lists the verbs of a command.
func (p *manText) verbs(cmd *cobra.Command) {
	var list []entry
	for _, verb := range cmd.Commands() {
		if !verb.Hidden {
			list = append(list, entry{verb.Name(), verb.Short})
		}
	}
	p.list("VERBS", list)
}

// flags lists flags: "-n, --ranks int", their help and their default, if it has one.
func (p *manText) flags(section string, set *pflag.FlagSet) {
	var list []entry
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		switch {
		case f.NoOptDefVal != "" && value != "" && f.Value.Type() != "count":
			name += "[=" + value + "]"
		case value != "" && f.Value.Type() != "count":
			name += " " + value
		}
		if isDefault := f.DefValue; isDefault != "" && isDefault != "false" && isDefault != "0" && isDefault != "[]" {
			text += " (default " + isDefault + ")"
		}
		list = append(list, entry{name, text})
	})
	p.list(section, list)
}

// seeAlso lists the man pages of related commands.
func (p *manText) seeAlso(cmd *cobra.Command) {
	var names []string
	if cmd.HasParent() {
		names = append(names, pageName(cmd.Parent())+"(1)")
	}
	for _, verb := range cmd.Commands() {
		if !verb.Hidden && verb.Name() != "help" && verb.Name() != "completion" {
			names = append(names, pageName(verb)+"(1)")
		}
	}
	p.section("SEE ALSO")
	p.line("%s", roff(strings.Join(names, ", ")))
}

// exitStatus returns the exit codes of a verb.
func exitStatus(cmd *cobra.Command) []entry {
	list := []entry{
		{"0", "Success."},
		{"1", "Failure; the message gives the cause."},
		{"2", "Wrong usage: a flag, value, file or interface is invalid or does not exist. Nothing was started."},
	}
	switch cmd.Name() {
	case "run", "lab":
		list[1].text = "A rank failed with 1, or the job could not be started."
		list = append(list, entry{"126, 127", "The command cannot be executed, or was not found."},
			entry{"other", "The worst exit code of the ranks; 128 plus the signal for a rank that was killed."})
	case "doctor":
		list[1].text = "At least one finding has the level fail."
	case "ping":
		list[1].text = "No echo was answered, or another failure occurred."
	case "map":
		list[1].text = "The map differs from the truth, or another failure occurred."
	case "top":
		list[1].text = "An address of --metrics does not answer, or there is no source at all."
	case "bobnet":
		list = append(list, entry{"126, 127", "lab and run: the command cannot be executed, or was not found."},
			entry{"other", "lab and run: the worst exit code of the ranks."})
	}
	return append(list, entry{"128 plus n", "Interrupted by signal n: 130 after Ctrl-C."})
}

// environment lists the variables that Bobnet reads, and those that lab and run set for their
// ranks.
var environment = []entry{
	{vipl.EnvInterface, "Interface to use, by name or MAC: the default of --iface. lab sets it."},
	{vipl.EnvDriver, "Driver that carries the frames: the default of --driver."},
	{vipl.EnvPeers, "Comma-separated IP addresses of the stations, for driver udp."},
	{vipl.EnvKeyFile, "File with the key that encrypts frames: the default of --key."},
	{vipl.EnvKey, "The key itself, as 64 hexadecimal digits."},
	{vipl.EnvTimeout, "Maximum time that the ranks of a job wait for each other, such as 90s."},
	{vipl.EnvFault, "Faults to inject into frames that are sent, such as loss=0.01,seed=5. lab sets it."},
	{agent.EnvPath, "Path of the agent's Unix socket."},
	{job.EnvRank, "Rank of this process in its job. lab and run set it."},
	{job.EnvSize, "Number of ranks of the job. lab and run set it."},
	{job.EnvJob, "Name of the job. lab and run set it."},
	{lab.EnvProcessors, "Number of processors of the ranks. lab and run set it with --bind."},
	{envMetrics, "Address at which a rank serves its metrics. lab --metrics sets it."},
	{plain.EnvHost, "Name of this host on an emulated Myrinet. lab --fabric sets it."},
	{splitc.EnvLayer, "Communication layer of Split-C programs."},
	{splitc.EnvHeap, "Size of a Split-C heap in bytes, with an optional suffix k, m or g."},
}

// environmentOf returns the variables that a verb reads or sets, and all variables for the root
// command.
func environmentOf(cmd *cobra.Command) (list []entry) {
	has := func(flag string) bool { return cmd.Flags().Lookup(flag) != nil }
	named := map[string]bool{
		vipl.EnvInterface: has("iface"), vipl.EnvDriver: has("driver") && has("iface"), vipl.EnvPeers: has("driver") && has("iface"),
		vipl.EnvKeyFile: has("key"), vipl.EnvKey: has("key"), vipl.EnvFault: has("driver") && has("iface"),
		agent.EnvPath: has("driver") && has("iface"),
	}
	switch cmd.Name() {
	case "lab":
		for _, name := range []string{vipl.EnvInterface, vipl.EnvFault, envMetrics, plain.EnvHost, vipl.EnvDriver} {
			named[name] = true
		}
		fallthrough
	case "run":
		for _, name := range []string{job.EnvRank, job.EnvSize, job.EnvJob, lab.EnvProcessors} {
			named[name] = true
		}
	}
	for _, e := range environment {
		if cmd.Name() == "bobnet" || named[e.name] {
			list = append(list, e)
		}
	}
	return list
}

// filesOf returns the files that a verb uses by default.
func filesOf(cmd *cobra.Command) (list []entry) {
	socket := entry{agent.DefaultPath, "Unix socket of bobnet agent, which opens packet sockets for programs without CAP_NET_RAW."}
	policy := entry{"/etc/bobnet/agent.policy", "Policy of the agent's systemd unit: the users and groups that get sockets."}
	switch cmd.Name() {
	case "bobnet", "agent":
		return []entry{socket, policy}
	case "demo":
		return []entry{{"out/" + demoHeat + ", out/" + demoPerf, "The pictures, in the folder of --out."}}
	case "rpcgen":
		return []entry{{"FILE_xdr.go", "The generated Go file, next to FILE.x unless --output names another."}}
	}
	if cmd.Flags().Lookup("driver") != nil && cmd.Flags().Lookup("iface") != nil {
		return []entry{socket}
	}
	return nil
}
