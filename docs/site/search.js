/* What helps a reader comes before why it is so: decisions, changes and claims stand further down. */
var Scorer = {
  score: ([page, , , , score]) =>
    /decisions\/|CHANGELOG|CONTRIBUTING|architecture|claims/.test(page) ? score - 30 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
