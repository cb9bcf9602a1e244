package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
