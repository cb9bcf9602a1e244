package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// finishFlags adds to the help of each flag of cmd and its verbs which numbers or times it takes,
// and completes its values.
func finishFlags(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		value, ok := f.Value.(hinted)
		if !ok {
			return
		}
		if value.hints().limits != "" {
			f.Usage += fmt.Sprintf(" (%s)", value.hints().limits)
		}
		cmd.RegisterFlagCompletionFunc(f.Name, complete(value)) // fails only for a flag that there is not
	})
	for _, verb := range cmd.Commands() {
		finishFlags(verb)
	}
}

// complete returns what a shell offers for the value of a flag: the only values that there are, those
// that come into question, or files. Of a list it completes the last word.
func complete(value hinted) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		h, before := value.hints(), ""
		if list, ok := value.(interface{ list() bool }); ok && list.list() {
			before = typed[:strings.LastIndex(typed, ",")+1]
		}
		offered := h.words
		if h.some != nil {
			offered = append(slices.Clone(offered), h.some()...)
		}
		var found []cobra.Completion
		for _, word := range offered {
			if strings.HasPrefix(before+word, typed) {
				found = append(found, before+word)
			}
		}
		if h.files {
			return found, cobra.ShellCompDirectiveDefault
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// helpVerbs makes help and completion refuse the name of what there is not.
func helpVerbs(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, verb := range root.Commands() {
		switch verb.Name() {
		case "help":
			verb.Short, verb.Use = "Show the help of a verb", "help [VERB]"
			verb.Run, verb.RunE = nil, func(_ *cobra.Command, args []string) error { return showHelp(root, args) }
		case "completion":
			verb.Args, verb.RunE = cobra.ArbitraryArgs, func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usageError{fmt.Errorf("completion: unknown shell %s: want %s", shown(args[0]), either(verbNames(cmd)))}
				}
				return cmd.Help()
			}
		}
	}
}

// showHelp prints the help of the verb that args name.
func showHelp(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if cmd != nil && cmd != root && len(rest) > 0 {
		return usageError{fmt.Errorf("help wants one verb, found %s behind %s", shown(rest[0]), cmd.Name())}
	}
	if cmd == nil || err != nil || len(rest) > 0 {
		return unknownVerb(root, args[0])
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	return cmd.Help()
}
