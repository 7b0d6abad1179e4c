//! `everwarp kb`: what is known about GPU-centric computing, and what this machine measures of it.

mod advise;
mod check;
mod show;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use everwarp_kb::{Confidence, FindingId, Index, Knowledge, NewFinding, UserFile};
use serde::Serialize;

use crate::error::CliError;
use crate::output::{print, print_json};
use show::{detail, table};

/// The folder of a user's findings and reports, instead of the system's usual one.
const FOLDER_VARIABLE: &str = "EVERWARP_DATA_DIR";
/// Names that a search that finds nothing suggests.
const SUGGESTIONS: usize = 3;

#[derive(Debug, Args)]
pub(crate) struct KbArgs {
    #[command(subcommand)]
    command: KbCommand,
}

#[derive(Debug, Subcommand)]
enum KbCommand {
    /// Show all findings of a topic; without one, the topics.
    Skill {
        /// The topic, by any of its names.
        topic: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Search claims, figures, topics and tags. A phrase in quotes must be there word by word.
    Search {
        /// What to search for; any characters.
        #[arg(required = true, allow_hyphen_values = true)]
        words: Vec<String>,
        /// How many findings to show at most.
        #[arg(long, default_value_t = 10)]
        limit: usize,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one finding with its source, and this machine's figures if there are any.
    Detail {
        /// The finding's number.
        id: FindingId,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add a finding of your own; it is kept in your data folder.
    Add(AddArgs),
    /// Count the findings by topic, confidence and whether a benchmark tests them.
    Stats {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare findings with this machine's figures: those of the newest report, or measured now.
    Check(check::CheckArgs),
    /// Say where a piece of work belongs: on the CPU, in a kernel, in a graph, in tasks or in processes.
    Advise(advise::AdviseArgs),
    /// Print the book's chapter.
    #[command(hide = true)]
    Chapter {
        /// The report whose figures are shown with the claims.
        #[arg(long)]
        report: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct AddArgs {
    /// The topic, by any of its names.
    #[arg(long)]
    topic: String,
    /// What was found.
    #[arg(long)]
    claim: String,
    /// The figures of the claim.
    #[arg(long, default_value = "")]
    number: String,
    /// The address of the source, or what the source is.
    #[arg(long)]
    source: String,
    /// The hardware.
    #[arg(long, default_value = "")]
    hardware: String,
    /// Search words, separated by commas.
    #[arg(long, value_delimiter = ',')]
    tags: Vec<String>,
    /// How sure you are: verified, high or medium.
    #[arg(long, default_value = "medium", value_parser = confidence)]
    confidence: Confidence,
}

fn confidence(text: &str) -> Result<Confidence, String> {
    match text {
        "verified" => Ok(Confidence::Verified),
        "high" => Ok(Confidence::High),
        "medium" => Ok(Confidence::Medium),
        _ => Err("use verified, high or medium".to_owned()),
    }
}

/// The folder of a user's findings and reports.
fn data_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE).filter(|f| !f.is_empty()) {
        return folder.into();
    }
    let usual = directories::ProjectDirs::from("", "", "everwarp");
    usual.map_or_else(
        || PathBuf::from(".everwarp"),
        |dirs| dirs.data_dir().to_owned(),
    )
}

fn user_file() -> UserFile {
    UserFile::new(data_folder().join("findings.toml"))
}

/// The findings that everwarp comes with, and those that the user has added.
fn knowledge() -> Result<Knowledge, CliError> {
    Ok(Knowledge::built_in().with(user_file().read()?))
}

pub(crate) fn main(args: &KbArgs) -> Result<(), CliError> {
    match &args.command {
        KbCommand::Skill { topic, json } if topic.is_empty() => topics(*json),
        KbCommand::Skill { topic, json } => skill(&topic.join(" "), *json),
        KbCommand::Search { words, limit, json } => {
            let typed = TypedSearch::new(words, *limit, *json);
            search(&typed.words.join(" "), typed.limit, typed.json)
        }
        KbCommand::Detail { id, json } => {
            let knowledge = knowledge()?;
            let finding = knowledge.finding(*id)?;
            let report = check::newest_report()?;
            match json {
                true => print_json(&check::Checked::new(finding, report.as_ref())),
                false => print(&detail(finding, report.as_ref())),
            }
        }
        KbCommand::Add(args) => add(args),
        KbCommand::Stats { json } => stats(*json),
        KbCommand::Check(args) => check::main(args),
        KbCommand::Advise(args) => advise::main(args),
        KbCommand::Chapter { report } => print(check::chapter(report.as_deref())?.trim_end()),
    }
}

fn topics(json: bool) -> Result<(), CliError> {
    #[derive(Serialize)]
    struct Row<'k> {
        #[serde(flatten)]
        topic: &'k everwarp_kb::Topic,
        findings: usize,
    }
    let knowledge = knowledge()?;
    let rows: Vec<_> = knowledge
        .topics()
        .iter()
        .map(|topic| Row {
            topic,
            findings: knowledge.of_topic(topic).count(),
        })
        .collect();
    if json {
        return print_json(&rows);
    }
    let line = |row: &Row<'_>| {
        format!(
            "{:20} {:>3}  {}",
            row.topic.name, row.findings, row.topic.about
        )
    };
    print(&rows.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn skill(name: &str, json: bool) -> Result<(), CliError> {
    let knowledge = knowledge()?;
    let topic = knowledge.topic(name)?;
    let findings: Vec<_> = knowledge.of_topic(topic).collect();
    match json {
        true => print_json(&findings),
        false => print(&format!(
            "{}: {}\n\n{}",
            topic.title,
            topic.about,
            table(&findings, links())
        )),
    }
}

/// Links are for terminals.
fn links() -> bool {
    std::io::stdout().is_terminal()
}

/// A search as it was typed. Words may begin with hyphens, so that options after the first word are among them.
struct TypedSearch<'w> {
    words: Vec<&'w str>,
    limit: usize,
    json: bool,
}

impl<'w> TypedSearch<'w> {
    fn new(typed: &'w [String], limit: usize, json: bool) -> Self {
        let mut search = Self {
            words: Vec::new(),
            limit,
            json,
        };
        let mut rest = typed.iter().map(String::as_str).peekable();
        while let Some(word) = rest.next() {
            let next = rest.peek().and_then(|next| next.parse().ok());
            let joined = word.strip_prefix("--limit=").map(str::parse);
            match (word, next, joined) {
                ("--json", ..) => search.json = true,
                ("--limit", Some(limit), _) => {
                    search.limit = limit;
                    rest.next();
                }
                (_, _, Some(Ok(limit))) => search.limit = limit,
                _ => search.words.push(word),
            }
        }
        search
    }
}

fn search(words: &str, limit: usize, json: bool) -> Result<(), CliError> {
    let knowledge = knowledge()?;
    let hits = Index::new(&knowledge).search(words, limit);
    if json {
        return print_json(&hits);
    }
    if hits.is_empty() {
        let nearest = knowledge.nearest_topics(words);
        let names: Vec<_> = nearest
            .iter()
            .take(SUGGESTIONS)
            .map(|t| t.name.as_str())
            .collect();
        return print(&format!(
            "nothing found; the nearest topics are {}",
            names.join(", ")
        ));
    }
    let findings: Vec<_> = hits.iter().map(|hit| hit.finding).collect();
    print(&table(&findings, links()))
}

fn add(args: &AddArgs) -> Result<(), CliError> {
    let file = user_file();
    let added = file.add(NewFinding {
        topic: args.topic.clone(),
        claim: args.claim.clone(),
        number: args.number.clone(),
        source: args.source.clone(),
        hardware: args.hardware.clone(),
        tags: args.tags.clone(),
        confidence: args.confidence,
    })?;
    print(&format!(
        "added finding {} to {}",
        added.id,
        file.path().display()
    ))
}

fn stats(json: bool) -> Result<(), CliError> {
    #[derive(Serialize)]
    struct Stats {
        findings: usize,
        own: usize,
        topics: usize,
        verified: usize,
        with_figures: usize,
        checked_by_benchmarks: usize,
    }
    let knowledge = knowledge()?;
    let all = knowledge.findings();
    let count = |is: &dyn Fn(&everwarp_kb::Finding) -> bool| all.iter().filter(|f| is(f)).count();
    let stats = Stats {
        findings: all.len(),
        own: count(&|f| f.id >= FindingId::FIRST_OF_USERS),
        topics: knowledge.topics().len(),
        verified: count(&|f| f.confidence == Confidence::Verified),
        with_figures: count(&|f| !f.number.is_empty()),
        checked_by_benchmarks: count(&|f| !f.checks.is_empty()),
    };
    match json {
        true => print_json(&stats),
        false => print(&format!(
            "{} findings in {} topics, {} of them your own\n{} verified, {} with figures, {} tested by benchmarks",
            stats.findings,
            stats.topics,
            stats.own,
            stats.verified,
            stats.with_figures,
            stats.checked_by_benchmarks
        )),
    }
}
