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

// newManCmd makes the man pages, for packages of distributions. It is not among the verbs that help
// shows.
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

// writePages writes the page of a command, and those of its verbs, into a folder.
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
		return fmt.Errorf("man wants one folder, found %d", len(args))
	}
	if err := existing(args[0]); err != nil {
		return fmt.Errorf("man %s: %w", shown(args[0]), err)
	}
	return nil
}

// sourceDate returns the time that says in seconds when the source is of; now if it is empty.
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

// pageName is what the page of a command is called: bobnet-perf.
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

// roff returns a text that man prints as it is.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", "").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// text writes paragraphs. What is indented stays as it is.
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

// entry is an item of a list, and what there is to say of it.
type entry struct{ name, text string }

// list writes a section of entries, if there are any.
func (p *manText) list(section string, entries []entry) {
	if len(entries) == 0 {
		return
	}
	p.section(section)
	for _, e := range entries {
		p.line(".TP\n.B %s\n%s", roff(e.name), roff(e.text))
	}
}

// verbs lists those of a command.
func (p *manText) verbs(cmd *cobra.Command) {
	var list []entry
	for _, verb := range cmd.Commands() {
		if !verb.Hidden {
			list = append(list, entry{verb.Name(), verb.Short})
		}
	}
	p.list("VERBS", list)
}

// flags lists flags: "-n, --ranks int", what they do, and the default if there is one to name.
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

// seeAlso names the pages of the other commands.
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
		{"1", "Failure; the message says of what."},
		{"2", "Wrong usage: a flag, a value, a file or an interface that does not exist or makes no sense. Nothing was started."},
	}
	switch cmd.Name() {
	case "run", "lab":
		list[1].text = "A rank failed with 1, or the job could not be started."
		list = append(list, entry{"126, 127", "The command cannot be run, or is not found."},
			entry{"other", "The worst exit code of the ranks; 128 plus the signal for a rank that a signal has killed."})
	case "doctor":
		list[1].text = "At least one finding has the level fail."
	case "ping":
		list[1].text = "No echo was answered, or another failure."
	case "map":
		list[1].text = "The map differs from the truth, or another failure."
	case "top":
		list[1].text = "An address that was named does not answer, or there was nobody to ask."
	case "bobnet":
		list = append(list, entry{"126, 127", "lab and run: the command cannot be run, or is not found."},
			entry{"other", "lab and run: the worst exit code of the ranks."})
	}
	return append(list, entry{"128 plus n", "Signal n interrupted it: 130 after Ctrl-C."})
}

// environment are the variables that Bobnet reads, and those by which lab and run tell programs
// what they are.
var environment = []entry{
	{vipl.EnvInterface, "Interface to use, by name or MAC: the default of --iface. lab sets it."},
	{vipl.EnvDriver, "How frames travel: the default of --driver."},
	{vipl.EnvPeers, "IP addresses of the stations, with commas between them, for driver udp."},
	{vipl.EnvKeyFile, "File with the key of sealed frames: the default of --key."},
	{vipl.EnvKey, "The key itself, as 64 hexadecimal digits."},
	{vipl.EnvTimeout, "How long the ranks of a job wait for each other to appear, such as 90s."},
	{vipl.EnvFault, "Faults on purpose on every frame sent, such as loss=0.01,seed=5. lab sets it."},
	{agent.EnvPath, "Path of the agent's Unix socket."},
	{job.EnvRank, "Rank of this process in its job. lab and run set it."},
	{job.EnvSize, "Number of ranks of the job. lab and run set it."},
	{job.EnvJob, "Name of the job. lab and run set it."},
	{lab.EnvProcessors, "With --bind, the number of processors of the ranks. lab and run set it."},
	{envMetrics, "Address at which a rank serves its metrics. lab --metrics sets it."},
	{plain.EnvHost, "Name of this host on an emulated Myrinet. lab --fabric sets it."},
	{splitc.EnvLayer, "Communication layer of Split-C programs."},
	{splitc.EnvHeap, "Size in bytes of a Split-C heap; k, m and g may follow."},
}

// environmentOf returns the variables that a verb reads or sets: all for the whole command.
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

// filesOf returns the files that a verb uses without being told.
func filesOf(cmd *cobra.Command) (list []entry) {
	socket := entry{agent.DefaultPath, "Unix socket of bobnet agent, where programs without CAP_NET_RAW get packet sockets."}
	policy := entry{"/etc/bobnet/agent.policy", "Who gets sockets of the agent, as its systemd unit starts it."}
	switch cmd.Name() {
	case "bobnet", "agent":
		return []entry{socket, policy}
	case "demo":
		return []entry{{"out/" + demoHeat + ", out/" + demoPerf, "The pictures, below the folder of --out."}}
	case "rpcgen":
		return []entry{{"FILE_xdr.go", "The Go file, beside FILE.x, unless --output names another."}}
	}
	if cmd.Flags().Lookup("driver") != nil && cmd.Flags().Lookup("iface") != nil {
		return []entry{socket}
	}
	return nil
}
