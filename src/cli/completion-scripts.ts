/**
 * Completion scripts for shells. Each passes the words up to the cursor to the hidden command below, which prints one
 * candidate per line with its description after a TAB, or `:files` or `:folders`. A candidate that ends in `=`, `:` or
 * `,` is not complete.
 */

/** The hidden command that the scripts call. */
export const COMPLETE_COMMAND = '__complete';

/** bash splits words at : and =, and expects only the part after them. */
const BASH = `# isoverbs: completion for bash
_isoverbs() {
  local line=\${COMP_LINE:0:COMP_POINT} words current value text prefix='' breaks=''
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  current=\${words[\${#words[@]}-1]}
  [[ $COMP_WORDBREAKS == *:* ]] && breaks+=:
  [[ $COMP_WORDBREAKS == *=* ]] && breaks+='='
  [[ -n $breaks && $current == *["$breaks"]* ]] && prefix=\${current%"\${current##*["$breaks"]}"}
  COMPREPLY=()
  while IFS=$'\\t' read -r value text; do
    case $value in
      :files) compopt -o default 2>/dev/null ;;
      :folders) compopt -o dirnames 2>/dev/null ;;
      *) COMPREPLY+=("\${value#"$prefix"}") ;;
    esac
  done < <("\${words[0]}" ${COMPLETE_COMMAND} -- "\${words[@]:1}" 2>/dev/null)
  [[ \${COMPREPLY[0]} == *[=:,] ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _isoverbs isoverbs
`;

const ZSH = `#compdef isoverbs
# isoverbs: completion for zsh
_isoverbs() {
  local line value text
  local -a values shown open open_shown
  while IFS= read -r line; do
    case $line in
      :files) _files; return ;;
      :folders) _files -/; return ;;
    esac
    value=\${line%%$'\\t'*}
    text=$value
    [[ $line == *$'\\t'* ]] && text="$value  -- \${line#*$'\\t'}"
    if [[ $value == *[=:,] ]]; then
      open+=("$value")
      open_shown+=("$text")
    else
      values+=("$value")
      shown+=("$text")
    fi
  done < <("\${words[1]}" ${COMPLETE_COMMAND} -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  (( $#values )) && compadd -l -d shown -a values
  (( $#open )) && compadd -S '' -l -d open_shown -a open
  return 0
}
if [[ $funcstack[1] == _isoverbs ]]; then
  _isoverbs "$@"
else
  compdef _isoverbs isoverbs
fi
`;

const FISH = `# isoverbs: completion for fish
function __isoverbs_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] ${COMPLETE_COMMAND} -- $words[2..] 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :folders
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $line
        end
    end
end
complete -c isoverbs -f -a '(__isoverbs_complete)'
`;

export const SCRIPTS = { bash: BASH, zsh: ZSH, fish: FISH } as const;
export type Shell = keyof typeof SCRIPTS;
