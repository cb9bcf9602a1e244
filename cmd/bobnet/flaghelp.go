package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// finishFlags adds to the help of each flag of cmd and its verbs which numbers or times it takes.
func finishFlags(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if value, ok := f.Value.(hinted); ok && value.hints().limits != "" {
			f.Usage += fmt.Sprintf(" (%s)", value.hints().limits)
		}
	})
	for _, verb := range cmd.Commands() {
		finishFlags(verb)
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
	if cmd == nil || err != nil || len(rest) > 0 {
		return unknownVerb(root, args[0])
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	return cmd.Help()
}
